"""Settings of the metadata table, from the options of a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_py.config import indexes, metadata, write
from hudi_py.config.option import Option
from hudi_py.config.options import Options
from hudi_py.errors import ConfigError
from hudi_py.metadata.expressions import check_zone


@dataclass(frozen=True, slots=True)
class MetadataWriteSettings:
    """What to keep in the metadata table, and how. Pickles; `of` reads it from options and shares their defaults.

    An index is True or False if the options say so, or None: then a table that has it keeps it, and a table without
    it gets it if that is Apache Hudi's default (column statistics).
    """

    enabled: bool = True
    """False: the metadata table is dropped (`hoodie.metadata.enable`)."""
    drop_indexes: bool = False
    """Whether indexes that hudi-py cannot maintain may be dropped (`hoodie.py.drop.indexes`)."""
    auto_delete: bool = True
    auto_initialize: bool = True
    directory_filter: str = ""
    column_stats: bool | None = None
    column_stats_groups: int = 2
    columns: tuple[str, ...] = ()
    """Columns with statistics; empty: the first `max_columns`."""
    max_columns: int = 32
    partition_stats_groups: int = 1
    bloom_filters: bool | None = None
    bloom_filters_groups: int = 4
    global_record_index: bool | None = None
    record_index: bool | None = None
    """The partitioned record index."""
    needs_unique_keys: bool = False
    """Whether a record index over all partitions is refused where a key is in several file groups."""
    secondary_indexes: bool | None = None
    secondary_column: str = ""
    """Column of a secondary index that a table without one for it gets; empty: none."""
    index_name: str = ""
    """Name of that index; empty: the column."""
    expression_indexes: bool | None = None
    expression_groups: int = 2
    expression_column: str = ""
    """Column of an expression index that a table without one for it and its function gets; empty: none."""
    expression_kind: str = "column_stats"
    expression_options: Mapping[str, str] = field(default_factory=dict)
    """Its function and options."""
    expression_zone: str = "UTC"
    """Time zone of the functions of expression indexes."""
    drop_index: str = ""
    """A partition to drop; empty: none."""
    defer_record_index: bool = False
    record_index_groups: tuple[int, int] = (10, 10000)
    """Minimum and maximum number of file groups of a global record index."""
    partition_record_index_groups: tuple[int, int] = (1, 10)
    """The same for each data partition of a partitioned record index."""
    record_index_group_bytes: int = 1 << 30
    record_index_growth: float = 2.0
    compact_commits: int = 10
    compact_seconds: int = 7200
    compact_trigger: str = "NUM_COMMITS"
    log_compaction: bool = False
    log_compaction_blocks: int = 5
    derive_clean_policy: bool = True
    max_commits_when_pending: int = 1000
    options: Options = field(default_factory=lambda: Options.resolve({}, defaults={}), repr=False, compare=False)
    """All options of the write, for those the metadata table takes over from the table (cleaning, archival)."""

    @classmethod
    def of(cls, options: Options) -> MetadataWriteSettings:
        """Reads the settings from the options of a write.

        Raises:
            ConfigError: both kinds of record index are asked for, or limits contradict each other.
        """
        found = cls(
            enabled=options.get(indexes.METADATA_ENABLE),
            drop_indexes=options.get(write.DROP_INDEXES),
            auto_delete=options.get(metadata.AUTO_DELETE_PARTITIONS),
            auto_initialize=options.get(metadata.AUTO_INITIALIZE),
            directory_filter=options.get(metadata.DIRECTORY_FILTER),
            column_stats=_asked(options, metadata.COLUMN_STATS),
            column_stats_groups=options.get(metadata.COLUMN_STATS_FILE_GROUPS),
            columns=options.get(metadata.COLUMN_STATS_COLUMNS),
            max_columns=options.get(metadata.COLUMN_STATS_MAX_COLUMNS),
            partition_stats_groups=options.get(metadata.PARTITION_STATS_FILE_GROUPS),
            bloom_filters=_asked(options, metadata.BLOOM_FILTERS),
            bloom_filters_groups=options.get(metadata.BLOOM_FILTERS_FILE_GROUPS),
            global_record_index=_asked(options, metadata.GLOBAL_RECORD_INDEX),
            record_index=_asked(options, metadata.RECORD_INDEX),
            secondary_indexes=_asked(options, metadata.SECONDARY_INDEX),
            secondary_column=options.get(metadata.SECONDARY_INDEX_COLUMN),
            index_name=options.get(metadata.INDEX_NAME),
            expression_indexes=_asked(options, metadata.EXPRESSION_INDEX),
            expression_groups=options.get(metadata.EXPRESSION_INDEX_FILE_GROUPS),
            expression_column=options.get(metadata.EXPRESSION_INDEX_COLUMN),
            expression_kind=options.get(metadata.EXPRESSION_INDEX_TYPE).lower(),
            expression_options=_pairs(options.get(metadata.EXPRESSION_INDEX_OPTIONS)),
            expression_zone=options.get(metadata.EXPRESSION_INDEX_ZONE) or "UTC",
            drop_index=options.get(metadata.DROP_INDEX),
            defer_record_index=options.get(metadata.DEFER_RECORD_INDEX),
            record_index_groups=(
                options.get(metadata.GLOBAL_RECORD_INDEX_MIN_GROUPS),
                options.get(metadata.GLOBAL_RECORD_INDEX_MAX_GROUPS),
            ),
            partition_record_index_groups=(
                options.get(metadata.RECORD_INDEX_MIN_GROUPS),
                options.get(metadata.RECORD_INDEX_MAX_GROUPS),
            ),
            record_index_group_bytes=options.get(metadata.RECORD_INDEX_MAX_GROUP_BYTES),
            record_index_growth=options.get(metadata.RECORD_INDEX_GROWTH),
            compact_commits=options.get(metadata.COMPACT_DELTA_COMMITS),
            compact_seconds=options.get(metadata.COMPACT_DELTA_SECONDS),
            compact_trigger=options.get(metadata.COMPACT_TRIGGER),
            log_compaction=options.get(metadata.LOG_COMPACTION),
            log_compaction_blocks=options.get(metadata.LOG_COMPACTION_BLOCKS),
            derive_clean_policy=options.get(metadata.DERIVE_CLEAN_POLICY),
            max_commits_when_pending=options.get(metadata.MAX_DELTA_COMMITS_WHEN_PENDING),
            options=options,
        )
        if found.global_record_index and found.record_index:
            raise ConfigError(
                f"Cannot keep two record indexes: {metadata.GLOBAL_RECORD_INDEX.key} and {metadata.RECORD_INDEX.key} "
                "are both true; set only one of them"
            )
        try:
            check_zone(found.expression_zone)
        except ValueError as error:
            raise ConfigError(
                f"Option {metadata.EXPRESSION_INDEX_ZONE.key} = '{found.expression_zone}' is not valid: {error}"
            ) from None
        for low, high in (found.record_index_groups, found.partition_record_index_groups):
            if low > high:
                raise ConfigError(
                    f"Cannot size the record index: the minimum of {low} file groups exceeds the maximum of {high}"
                )
        return found


def _pairs(text: str) -> dict[str, str]:
    """`a=b,c=d`, as in `HoodieMetadataConfig.getExpressionIndexOptions`."""
    found = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    for name, equals, _ in found:
        if not equals:
            raise ConfigError(
                f"Option {metadata.EXPRESSION_INDEX_OPTIONS.key} = '{text}' is not valid: {name!r} has no value; "
                "expected pairs such as expr=lower, separated by commas"
            )
    return {name.strip(): value.strip() for name, _, value in found}


def _asked(options: Options, option: Option[bool]) -> bool | None:
    return options.get(option) if options.given(option) else None
