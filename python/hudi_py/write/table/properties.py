"""The properties of tables: the option that sets each, the table versions that store it, its value in a new table, and
how options are compared with it.

Sources: `HoodieTableConfig`, `HoodieTableMetaClient.TableBuilder` and `HoodieWriterUtils.validateTableConfig`, 1.2.0.
Versions 6 and 8 get the keys of the releases that introduced them (0.15, 1.0): a single ordering field is stored as
`hoodie.table.precombine.field`, which newer releases read as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import table as config
from hudi_py.config.option import Option, option_text
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.merge.settings import DELETE_FIELD, DELETE_MARKER, PARTIAL_UPDATE_MODE, PROPERTY_PREFIX, UNAVAILABLE_VALUE
from hudi_py.model.properties import DATABASE, NAME, SLASHED_DATES, TableConfig
from hudi_py.timeline.properties import check_writable
from hudi_py.write.rows.keygen import (
    KeyGeneratorType,
    check_fields,
    field_type,
    infer_keygen_type,
    parse_keygen,
)
from hudi_py.write.table.merging import NewMerging, asked_mode

CREATE_SCHEMA: Final = "hoodie.table.create.schema"
_UNAVAILABLE: Final = PROPERTY_PREFIX + UNAVAILABLE_VALUE


@dataclass(frozen=True, slots=True)
class RequestedTable:
    """The settings of a new table that options ask for, and values derived from them."""

    options: Options
    version: int
    keygen: KeyGeneratorType
    partition_fields: tuple[str, ...]
    """Names without the types that those of a CUSTOM key generator have."""
    merging: NewMerging

    @classmethod
    def of(cls, options: Options) -> RequestedTable:
        """Resolves the options. Raises ConfigError if there is no name, or for options that contradict each other."""
        if not options.get(config.TABLE_NAME):
            raise ConfigError("Cannot create a table without a name; set hoodie.table.name")
        base_format = options.get(config.BASE_FILE_FORMAT)
        if options.get(config.METAFILES_IN_BASE_FORMAT) and base_format != "PARQUET":
            raise UnsupportedTableError(
                f"Cannot create a table with {config.METAFILES_IN_BASE_FORMAT.key}=true and base files in "
                f"{base_format}: such metafiles are written in Parquet only; leave the option out"
            )
        keys, fields = options.get(config.RECORD_KEY), options.get(config.PARTITION_PATH)
        twice = next((name for number, name in enumerate(keys) if name in keys[:number]), None)
        if twice is not None:
            raise ConfigError(
                f"Cannot create a table with the record key fields {','.join(keys)}: '{twice}' occurs twice; name each "
                "once"
            )
        keygen = _asked_keygen(options) or infer_keygen_type(keys, fields)
        partitions = _partition_names(keygen, fields)
        _check_partitions(keygen, partitions)
        check_fields(keygen, keys, partitions)
        if options.get(config.SLASHED_DATES):
            _check_slashed_dates(partitions, keygen, options.get(config.HIVE_STYLE))
        version = options.get(config.TABLE_VERSION)
        return cls(options, version, keygen, partitions, NewMerging.of(options, version))


Derived = Callable[[RequestedTable], str | None]
"""Returns the value of a property of a new table; None if it has none."""


def _in_any_case(asked: str, stored: str) -> bool:
    return asked.lower() == stored.lower()


def _equals_exactly(asked: str, stored: str) -> bool:
    return asked == stored


def _by_name(asked: str, stored: str) -> bool:
    """Compares partition fields, and their types where both have some."""
    if ":" not in asked or ":" not in stored:
        asked, stored = (",".join(name.split(":", 1)[0] for name in text.split(",")) for text in (asked, stored))
    return _in_any_case(asked, stored)


@dataclass(frozen=True, slots=True)
class TableProperty:
    """A property of a table, in the versions that store it."""

    key: str
    option: Option[Any] | None = None
    """The option that sets it in a new table."""
    value: str | Derived | None = None
    """Its value in a new table. By default, that of the option unless it is empty."""
    since: int = 6
    until: int | None = None
    """The last version that stores it; None if all later ones do."""
    asked: Callable[[Options], str | None] | None = None
    """The value that options ask for; None if they ask for nothing. By default, the value of the option if it is
    given."""
    stored: Callable[[TableConfig], str | None] | None = None
    """The value of a table; None if any value is compatible. By default, the text of the property, or else the default
    of the option."""
    same: Callable[[str, str], bool] | None = _in_any_case
    """Compares the two, whatever the version; None if they are not compared."""

    def in_version(self, version: int) -> bool:
        """Returns whether tables of a version store it."""
        return self.since <= version and (self.until is None or version <= self.until)

    def value_in(self, new: RequestedTable) -> str | None:
        """Returns its value in a new table; None if it is not stored."""
        if self.value is None:
            return None if self.option is None else option_text(new.options.get(self.option)) or None
        return self.value if isinstance(self.value, str) else self.value(new)

    def contradiction(self, table: TableConfig, options: Options) -> str | None:
        """Returns the value in the options and the value of the table if they differ."""
        option = self.option
        if option is None or self.same is None:
            return None
        given = option_text(options.get(option)) if options.given(option) and options.get(option) is not None else None
        asked = given if self.asked is None else self.asked(options)
        text = table.properties.get(self.key, option_text(option.default)).strip()
        stored = text if self.stored is None else self.stored(table)
        if asked is None or stored is None or self.same(asked, stored):
            return None
        return f"{option.key}: asked for {asked or '(none)'}, the table has {stored or '(none)'}"


def _asked_keygen(options: Options) -> KeyGeneratorType | None:
    return parse_keygen(options.get(config.KEYGEN_TYPE) or "", options.get(config.KEYGEN_CLASS) or "")


def _asked_keygen_name(options: Options) -> str | None:
    keygen = _asked_keygen(options)
    return None if keygen is None else keygen.value


def _stored_keygen(table: TableConfig) -> str:
    keygen = parse_keygen(table.keygen_type, table.keygen_class)
    return (keygen or infer_keygen_type(table.record_key_fields, table.partition_fields)).value


def _stored_payload(table: TableConfig) -> str | None:
    return table.payload_class or table.properties.get("hoodie.table.legacy.payload.class") or None


def _single_ordering_field(new: RequestedTable) -> str | None:
    fields = new.merging.ordering_fields
    return fields[0] if len(fields) == 1 else None


def _several_ordering_fields(new: RequestedTable) -> str | None:
    fields = new.merging.ordering_fields
    return ",".join(fields) if len(fields) > 1 else None


def _partition_extractor(new: RequestedTable) -> str:
    fields = len(new.partition_fields)
    if new.options.get(config.SLASHED_DATES):
        name = "SlashEncodedDayPartitionValueExtractor"
    elif fields == 0:
        name = "NonPartitionedExtractor"
    elif fields > 1:
        name = "MultiPartKeysValueExtractor"
    else:
        hive_style = new.options.get(config.HIVE_STYLE)
        name = "HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor"
    return f"org.apache.hudi.hive.{name}"


def _date_property(option: Option[str | None]) -> TableProperty:
    """Returns the property of a date option of the key generator TIMESTAMP: Apache Hudi does not store those of CUSTOM.
    Patterns are case-sensitive."""

    def value(new: RequestedTable) -> str | None:
        return new.options.get(option) if new.keygen is KeyGeneratorType.TIMESTAMP else None

    def stored(table: TableConfig) -> str | None:
        (old,) = option.aliases
        return table.properties.get(option.key, table.properties.get(old))

    return TableProperty(option.key, option, value, stored=stored, same=_equals_exactly)


PROPERTIES: Final = (
    TableProperty(NAME, config.TABLE_NAME),
    TableProperty(DATABASE, config.DATABASE_NAME, same=None),
    TableProperty("hoodie.table.type", config.TABLE_TYPE),
    TableProperty("hoodie.table.version", config.TABLE_VERSION),
    TableProperty("hoodie.table.initial.version", value=lambda new: str(new.version), since=8),
    TableProperty("hoodie.timeline.layout.version", value="1", until=6),
    TableProperty("hoodie.timeline.layout.version", value="2", since=8),
    TableProperty("hoodie.timeline.path", value="timeline", since=8),
    TableProperty("hoodie.timeline.history.path", value="history", since=8),
    TableProperty("hoodie.archivelog.folder", value="archived", until=6),
    TableProperty("hoodie.archivelog.folder", value="history", since=8),
    TableProperty("hoodie.table.format", value="native", since=9),
    TableProperty("hoodie.table.multiple.base.file.formats.enable", value="false", since=8),
    TableProperty(
        "hoodie.table.recordkey.fields", config.RECORD_KEY, stored=lambda table: ",".join(table.record_key_fields)
    ),
    TableProperty(
        "hoodie.table.partition.fields",
        config.PARTITION_PATH,
        lambda new: ",".join(new.partition_fields),
        until=6,
        stored=lambda table: ",".join(table.typed_partition_fields),
        same=_by_name,
    ),
    TableProperty(
        "hoodie.table.partition.fields", value=lambda new: ",".join(new.options.get(config.PARTITION_PATH)), since=8
    ),
    TableProperty("hoodie.table.partition_extractor_class", value=_partition_extractor, since=9),
    TableProperty(
        "hoodie.table.ordering.fields",
        config.ORDERING,
        _several_ordering_fields,
        until=8,
        # like Apache Hudi, accepts an ordering option for a table without ordering fields
        stored=lambda table: ",".join(table.ordering_fields) or None,
    ),
    TableProperty(
        "hoodie.table.ordering.fields", value=lambda new: ",".join(new.merging.ordering_fields) or None, since=9
    ),
    TableProperty("hoodie.table.precombine.field", value=_single_ordering_field, until=8),
    TableProperty("hoodie.table.keygenerator.class", value=lambda new: new.keygen.java_class, until=6),
    TableProperty(
        "hoodie.table.keygenerator.type",
        config.KEYGEN_TYPE,
        lambda new: new.keygen.value,
        since=8,
        asked=_asked_keygen_name,
        stored=_stored_keygen,
    ),
    TableProperty("hoodie.record.merge.mode", value=lambda new: new.merging.mode_before_9, since=8, until=8),
    TableProperty(
        "hoodie.record.merge.mode",
        config.MERGE_MODE,
        lambda new: new.merging.mode,
        since=9,
        asked=asked_mode,
        stored=lambda table: table.merge_mode or None,
    ),
    TableProperty("hoodie.record.merge.strategy.id", value=lambda new: new.merging.strategy_before_9, since=8, until=8),
    TableProperty(
        "hoodie.compaction.payload.class",
        config.PAYLOAD_CLASS,
        lambda new: new.merging.payload_before_9,
        until=8,
        stored=_stored_payload,
    ),
    TableProperty("hoodie.table.legacy.payload.class", value=lambda new: new.merging.payload, since=9),
    TableProperty(
        PARTIAL_UPDATE_MODE,
        config.PARTIAL_UPDATE_MODE,
        lambda new: None if new.merging.partial is None else new.merging.partial.value,
        since=9,
    ),
    TableProperty(
        _UNAVAILABLE,
        config.UNAVAILABLE_VALUE,
        lambda new: new.merging.unavailable,
        since=9,
        stored=lambda table: table.properties.get(_UNAVAILABLE, ""),
    ),
    TableProperty(
        PROPERTY_PREFIX + DELETE_FIELD, value=lambda new: new.merging.deletes and new.merging.deletes[0], since=9
    ),
    TableProperty(
        PROPERTY_PREFIX + DELETE_MARKER, value=lambda new: new.merging.deletes and new.merging.deletes[1], since=9
    ),
    TableProperty(config.HIVE_STYLE.key, config.HIVE_STYLE),
    TableProperty(config.URL_ENCODE.key, config.URL_ENCODE),
    TableProperty(
        SLASHED_DATES,
        config.SLASHED_DATES,
        lambda new: "true" if new.options.get(config.SLASHED_DATES) else None,
    ),
    *map(_date_property, config.DATE_OPTIONS),
    TableProperty(config.BASE_FILE_FORMAT.key, config.BASE_FILE_FORMAT, stored=lambda table: table.base_file_format),
    TableProperty(config.META_FIELDS.key, config.META_FIELDS),
    TableProperty(config.DROP_PARTITION_COLUMNS.key, config.DROP_PARTITION_COLUMNS),
    TableProperty(config.METAFILES_IN_BASE_FORMAT.key, config.METAFILES_IN_BASE_FORMAT),
    TableProperty(config.TIMEZONE.key, config.TIMEZONE),
    TableProperty(config.CDC_ENABLED.key, config.CDC_ENABLED),
    TableProperty(
        config.CDC_MODE.key,
        config.CDC_MODE,
        lambda new: new.options.get(config.CDC_MODE) if new.options.get(config.CDC_ENABLED) else None,
        stored=lambda table: (
            (table.properties.get(config.CDC_MODE.key) or config.CDC_MODE.default) if table.cdc_enabled else None
        ),
    ),
)
"""Every property of a table that writes set or compare, in the order in which contradictions are named. A key occurs
twice if its value differs by version; one of the two has the option."""


def stored_in(version: int) -> frozenset[str]:
    """Returns the keys of the properties that tables of a version store."""
    return frozenset(prop.key for prop in PROPERTIES if prop.in_version(version))


def table_properties(options: Options) -> dict[str, str]:
    """Returns `hoodie.properties` of a new table, without the checksum.

    Raises:
        ConfigError, UnsupportedTableError: as `NewTable.of`.
    """
    new = RequestedTable.of(options)
    properties = ((prop.key, prop.value_in(new)) for prop in PROPERTIES if prop.in_version(new.version))
    return {key: value for key, value in properties if value is not None}


def check_options(table: TableConfig, options: Options) -> None:
    """Refuses options that contradict an existing table (`HoodieWriterUtils.validateTableConfig`, 1.2.0).

    Raises:
        ConfigError: names every contradiction with both values.
        UnsupportedTableError: the table is of a version which is only read.
    """
    check_writable(table)
    contradictions = [text for prop in PROPERTIES if (text := prop.contradiction(table, options))]
    if contradictions:
        raise ConfigError(
            f"Cannot write to the table {table.name!r} with options that contradict it: {'; '.join(contradictions)}; "
            "leave these options out or change them"
        )


def _partition_names(keygen: KeyGeneratorType, fields: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the partition fields without their types, which only those of CUSTOM key generators have."""
    custom = keygen is KeyGeneratorType.CUSTOM
    parts = [field_type(text) for text in fields] if custom else [(text, None) for text in fields]
    for text, (_, kind) in zip(fields, parts, strict=True):
        if custom != (kind is not None) or (not custom and ":" in text):
            what = "without a type" if custom else "with a type, which belongs to CUSTOM"
            raise ConfigError(
                f"Cannot create a table with the key generator {keygen.value} and the partition field {text} {what} "
                "(hoodie.datasource.write.partitionpath.field); for CUSTOM give name:SIMPLE or name:TIMESTAMP, for "
                "others the name alone"
            )
    return tuple(name for name, _ in parts)


def _check_partitions(keygen: KeyGeneratorType, partitions: tuple[str, ...]) -> None:
    if len({name.lower() for name in partitions}) < len(partitions):
        raise ConfigError(
            f"Cannot create a table with the partition fields {','.join(partitions)}: one of them occurs twice, and "
            "queries of Apache Hudi would fail; name each once"
        )
    if keygen is not KeyGeneratorType.CUSTOM and (keygen is KeyGeneratorType.NON_PARTITION) != (not partitions):
        raise ConfigError(
            f"Cannot create a table with the key generator {keygen.value} and the partition fields "
            f"{','.join(partitions) or '(none)'}; use NON_PARTITION if and only if the table has no partition fields"
        )


def _check_slashed_dates(partitions: tuple[str, ...], keygen: KeyGeneratorType, hive_style: bool) -> None:
    if len(partitions) != 1 or hive_style or keygen is KeyGeneratorType.TIMESTAMP:
        raise ConfigError(
            f"Cannot create a table with {SLASHED_DATES}=true, the partition fields {','.join(partitions) or '(none)'}"
            f" and the key generator {keygen.value}{', hive-style' if hive_style else ''}; it goes with one partition "
            "field, with SIMPLE, COMPLEX and CUSTOM, and not with hive-style names"
        )
