"""Tagging: which file group of its partition holds each incoming key."""

from hudi_py.write.index.record_index import RecordIndexTagger, open_tagger, tag_by_places
from hudi_py.write.index.tagging import (
    RECORD_INDEXES,
    IndexSettings,
    Tagging,
    check_index,
    check_no_bucket_index,
    tag_keys,
)

__all__ = [
    "RECORD_INDEXES",
    "IndexSettings",
    "RecordIndexTagger",
    "Tagging",
    "check_index",
    "check_no_bucket_index",
    "open_tagger",
    "tag_by_places",
    "tag_keys",
]
