"""Tagging: which file group of its partition holds each incoming key."""

from hudi_py.write.index.tagging import RECORD_INDEXES, IndexSettings, Tagging, check_index, tag_keys

__all__ = ["RECORD_INDEXES", "IndexSettings", "Tagging", "check_index", "tag_keys"]
