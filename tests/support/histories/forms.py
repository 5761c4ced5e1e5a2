"""What tables of random histories are made with: versions, kinds, indexes, formats of files, and merge modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1", "hoodie.py.write.durable": "false"}
QUIET = {
    **QUICK,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
INLINE = {
    **QUICK,
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}
BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "3",
}
INDEXES: dict[str, Mapping[str, str]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM", "hoodie.metadata.index.bloom.filter.enable": "true"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "RECORD": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"},
    "BUCKET": BUCKETS,
    "HASHES": {
        **BUCKETS,
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.max.num.buckets": "6",
        "hoodie.bucket.index.min.num.buckets": "1",
        "hoodie.parquet.max.file.size": "100",
    },
}
COMMIT_TIME, EVENT_TIME = "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"
LACKING = {
    "meta": {"hoodie.populate.meta.fields": "false"},
    "partitions": {"hoodie.datasource.write.drop.partition.columns": "true"},
}


@dataclass(frozen=True)
class Form:
    """What a table is made with."""

    kind: str = "mor"
    version: int = 9
    index: str = "SIMPLE"
    base: str = "PARQUET"
    log: str = "avro"
    positions: bool = True
    changes: str = ""
    """How changes are logged (`hoodie.table.cdc.supplemental.logging.mode`); empty: not at all."""
    by_id: bool = False
    """Whether columns have ids, so that they can be dropped and renamed."""
    lacks: str = ""
    """The columns that files lack: `meta` or `partitions`; empty: none."""
    mode: str = ""
    """The merge mode, with rows that come late and keys that base files have twice; empty: the default, and neither."""
    nested: bool = False
    """Whether partitions are folders in a folder."""

    def value_of(self, part: str) -> str:
        """The partition column's value, which is the path of the partition."""
        return {"a": "x/1", "b": "x/2"}[part] if self.nested else part

    @property
    def options(self) -> dict[str, str]:
        options = dict(INDEXES[self.index])
        if self.base != "PARQUET":  # whose footers cannot have bloom filters
            options["hoodie.table.base.file.format"] = self.base
            options.pop("hoodie.metadata.index.bloom.filter.enable", None)
        if self.kind == "mor":
            options["hoodie.logfile.data.block.format"] = self.log
            options["hoodie.write.record.positions"] = str(self.positions).lower()
        if self.changes:
            options["hoodie.table.cdc.enabled"] = "true"
            options["hoodie.table.cdc.supplemental.logging.mode"] = self.changes
        if self.by_id:
            options["hoodie.schema.on.read.enable"] = "true"
        options.update(LACKING.get(self.lacks, {}))
        if self.mode:
            options["hoodie.write.record.merge.mode"] = self.mode
        return options
