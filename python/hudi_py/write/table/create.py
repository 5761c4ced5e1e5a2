"""New tables: the properties Apache Hudi would store for each table version, and options that contradict a table's.

Sources: `HoodieTableConfig`, `HoodieTableMetaClient.TableBuilder` and `HoodieWriterUtils.validateTableConfig`, 1.2.0.
Versions 6 and 8 get the keys of the releases that introduced them (0.15, 1.0): a single ordering field is stored as
`hoodie.table.precombine.field`, which newer releases read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hudi_py.config import Options
from hudi_py.config import table as table_config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.base_files import WRITTEN
from hudi_py.merge.settings import PARTIAL_UPDATE_MODE, UNAVAILABLE_VALUE
from hudi_py.model.changes import ENABLED, MODE, LoggingMode
from hudi_py.model.layout import ARCHIVE, AUXILIARY, MARKERS, OLD_ARCHIVE, PROPERTIES, SCHEMAS, TIMELINE
from hudi_py.model.properties import SLASHED_DATES, TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import check_writable, create_table_config, load_table_config
from hudi_py.transaction.locks import NO_ACCESS
from hudi_py.write.rows.keygen import (
    KeyGeneratorType,
    KeyOptions,
    check_fields,
    field_type,
    infer_keygen_type,
    parse_keygen,
)
from hudi_py.write.table.merging import MODE_OF_STRATEGY, UNAVAILABLE_PROPERTY, MergeSpec, merge_properties

SUPPORTED_VERSIONS = (6, 8, 9)
DEFAULT_VERSION = 9

T = TypeVar("T")

_FULL = LoggingMode.DATA_BEFORE_AFTER.value

_DATE_OPTIONS = (
    *(table_config.DATE_TYPE, table_config.DATE_UNIT, table_config.DATE_ZONE),
    *(table_config.DATE_INPUT_FORMAT, table_config.DATE_INPUT_DELIMITER, table_config.DATE_INPUT_ZONE),
    *(table_config.DATE_OUTPUT_FORMAT, table_config.DATE_OUTPUT_ZONE),
)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a caller requires of a table. None: the default for a new table, anything for an existing one."""

    name: str | None = None
    database: str | None = None
    table_type: str | None = None
    """`COPY_ON_WRITE` (default) or `MERGE_ON_READ`."""
    version: int | None = None
    """6, 8 or 9 (default)."""
    record_key_fields: tuple[str, ...] | None = None
    """Empty, or None for a new table: keys are generated."""
    partition_fields: tuple[str, ...] | None = None
    """Empty: not partitioned. Those of a CUSTOM key generator are `name:TYPE`."""
    ordering_fields: tuple[str, ...] | None = None
    keygen_class: str | None = None
    keygen_type: str | None = None
    """Default: from the number of key and partition fields, as Java infers it."""
    merge_mode: str | None = None
    payload_class: str | None = None
    partial_update_mode: str | None = None
    unavailable_value: str | None = None
    """What stands for a value that is not known, in the partial update mode FILL_UNAVAILABLE."""
    hive_style: bool | None = None
    url_encoded: bool | None = None
    slashed_dates: bool | None = None
    dates: Mapping[str, str] = field(default_factory=dict)
    """Options `hoodie.keygen.timebased.*`, by their newer names."""
    timezone: str | None = None
    """`LOCAL` (default) or `UTC`."""
    logs_changes: bool | None = None
    """Change data capture; default: no."""
    logging_mode: str | None = None
    """What it logs; default: `DATA_BEFORE_AFTER`."""
    populates_meta_fields: bool | None = None
    """Default: yes."""
    drops_partition_columns: bool | None = None
    """Default: no."""
    metafiles_in_base_format: bool | None = None
    """Default: no."""
    base_file_format: str | None = None
    create_schema: str | None = None
    """Avro JSON without meta columns."""


def table_spec(options: Options) -> TableSpec:
    """What the options of a write require of the table."""

    def given(option: Option[T]) -> T | None:
        return options.get(option) if options.given(option) else None

    version = given(table_config.TABLE_VERSION)
    mode = given(table_config.MERGE_MODE)
    strategy = given(table_config.MERGE_STRATEGY_ID)
    return TableSpec(
        name=given(table_config.TABLE_NAME),
        database=given(table_config.DATABASE_NAME),
        table_type=given(table_config.TABLE_TYPE),
        version=None if version is None else int(version),
        record_key_fields=given(table_config.RECORD_KEY),
        partition_fields=given(table_config.PARTITION_PATH),
        ordering_fields=given(table_config.ORDERING),
        keygen_class=given(table_config.KEYGEN_CLASS),
        keygen_type=given(table_config.KEYGEN_TYPE),
        merge_mode=mode or MODE_OF_STRATEGY.get((strategy or "").lower()),
        payload_class=given(table_config.PAYLOAD_CLASS),
        partial_update_mode=given(table_config.PARTIAL_UPDATE_MODE),
        unavailable_value=given(table_config.UNAVAILABLE_VALUE),
        hive_style=given(table_config.HIVE_STYLE),
        url_encoded=given(table_config.URL_ENCODE),
        slashed_dates=given(table_config.SLASHED_DATES),
        dates=key_options(options).dates,
        timezone=given(table_config.TIMEZONE),
        logs_changes=given(table_config.CDC_ENABLED),
        logging_mode=given(table_config.CDC_MODE),
        populates_meta_fields=given(table_config.META_FIELDS),
        drops_partition_columns=given(table_config.DROP_PARTITION_COLUMNS),
        metafiles_in_base_format=given(table_config.METAFILES_IN_BASE_FORMAT),
        base_file_format=given(table_config.BASE_FILE_FORMAT),
    )


def key_options(options: Options) -> KeyOptions:
    """What the options of a write say of keys and partitions that the properties of a table may lack."""
    given = {option.key: options.get(option) for option in _DATE_OPTIONS if options.given(option)}
    return KeyOptions(
        options.get(table_config.PARTITION_PATH),
        {key: text for key, text in given.items() if text},
        options.get(table_config.TIMESTAMPS_AS_TEXT),
    )


def table_properties(spec: TableSpec) -> dict[str, str]:
    """`hoodie.properties` of a new table, without the checksum.

    Raises:
        ConfigError: no name, or values which do not go together.
        UnsupportedTableError: a version, key generator, payload class or file format beyond this release.
    """
    version = DEFAULT_VERSION if spec.version is None else spec.version
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedTableError(
            f"Cannot create a table of version {version} (hoodie.write.table.version); supported are 6, 8 and 9"
        )
    if not spec.name:
        raise ConfigError("Cannot create a table without a name; set hoodie.table.name")
    table_type = _choice("hoodie.datasource.write.table.type", spec.table_type, ("COPY_ON_WRITE", "MERGE_ON_READ"))
    base_format = (spec.base_file_format or "PARQUET").upper()
    if base_format not in WRITTEN:
        raise UnsupportedTableError(
            f"Cannot create a table with base files in {base_format} (hoodie.table.base.file.format); "
            f"supported are {' and '.join(WRITTEN)}"
        )
    if spec.metafiles_in_base_format and base_format != "PARQUET":
        raise UnsupportedTableError(
            f"Cannot create a table with {table_config.METAFILES_IN_BASE_FORMAT.key}=true and base files in "
            f"{base_format}: such metafiles are written in Parquet only; leave the option out"
        )
    keys = spec.record_key_fields or ()
    twice = next((name for at, name in enumerate(keys) if name in keys[:at]), None)
    if twice is not None:
        raise ConfigError(
            f"Cannot create a table with the record key fields {','.join(keys)}: '{twice}' occurs twice; name each once"
        )
    keygen = parse_keygen(spec.keygen_type or "", spec.keygen_class or "")
    if keygen is None:
        keygen = infer_keygen_type(keys, spec.partition_fields or ())
    partitions = _partition_names(keygen, spec.partition_fields or ())
    if len({name.lower() for name in partitions}) < len(partitions):
        raise ConfigError(
            f"Cannot create a table with the partition fields {','.join(partitions)}: one of them occurs twice, and "
            "queries of Apache Hudi would fail; name each once"
        )
    if keygen is not KeyGeneratorType.CUSTOM and (keygen is KeyGeneratorType.NON_PARTITION) != (not partitions):
        raise ConfigError(
            f"Cannot create a table with the key generator {keygen.value} and the partition fields "
            f"{','.join(partitions) or '(none)'}; a table without partition fields has NON_PARTITION, others have not"
        )
    check_fields(keygen, keys, partitions)
    timezone = _choice("hoodie.table.timeline.timezone", spec.timezone, ("LOCAL", "UTC"))
    hive_style = bool(spec.hive_style)
    properties = {
        "hoodie.table.name": spec.name,
        "hoodie.table.type": table_type,
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "1" if version < 8 else "2",
        "hoodie.table.partition.fields": ",".join(partitions if version < 8 else spec.partition_fields or ()),
        "hoodie.table.base.file.format": base_format,
        "hoodie.table.timeline.timezone": timezone,
        ENABLED: _flag(bool(spec.logs_changes)),
        table_config.META_FIELDS.key: _flag(spec.populates_meta_fields is not False),
        "hoodie.datasource.write.hive_style_partitioning": _flag(hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(bool(spec.url_encoded)),
        table_config.DROP_PARTITION_COLUMNS.key: _flag(bool(spec.drops_partition_columns)),
        table_config.METAFILES_IN_BASE_FORMAT.key: _flag(bool(spec.metafiles_in_base_format)),
    }
    if keys:
        properties["hoodie.table.recordkey.fields"] = ",".join(keys)
    if spec.slashed_dates:
        _check_slashed_dates(partitions, keygen, hive_style)
        properties[SLASHED_DATES] = "true"
    if keygen is KeyGeneratorType.TIMESTAMP:  # of CUSTOM key generators, Apache Hudi does not store them
        properties |= spec.dates
    if spec.logs_changes:
        properties[MODE] = _choice(MODE, spec.logging_mode or _FULL, tuple(mode.value for mode in LoggingMode))
    if spec.database:
        properties["hoodie.database.name"] = spec.database
    if spec.create_schema:
        properties["hoodie.table.create.schema"] = spec.create_schema
    if version < 8:
        properties["hoodie.archivelog.folder"] = "archived"
        properties["hoodie.table.keygenerator.class"] = keygen.java_class
    else:
        properties |= {
            "hoodie.table.initial.version": str(version),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.keygenerator.type": keygen.value,
            "hoodie.table.multiple.base.file.formats.enable": "false",
        }
    if version >= 9:
        properties["hoodie.table.format"] = "native"
        properties["hoodie.table.partition_extractor_class"] = _partition_extractor(
            len(partitions), hive_style, bool(spec.slashed_dates)
        )
    properties |= merge_properties(
        MergeSpec(
            spec.ordering_fields or (),
            spec.merge_mode,
            spec.payload_class,
            spec.partial_update_mode,
            spec.unavailable_value,
        ),
        version,
    )
    return properties


def create_table(
    storage: Storage, spec: TableSpec, mark: Callable[[dict[str, str]], dict[str, str]] = dict
) -> tuple[TableConfig, bool]:
    """Creates the table at the storage's root, or opens an existing one.

    Of several callers at once one creates; the others open its table.

    Args:
        mark: adds properties that say who creates it.

    Returns:
        The table's properties, and whether this call created it.

    Raises:
        ConfigError, UnsupportedTableError: as `table_properties`; an existing table contradicts the spec; the path
            cannot be written.
    """
    properties = mark(table_properties(spec))
    try:
        created = _create(storage, properties)
    except OSError as error:
        if error.errno not in NO_ACCESS:
            raise
        raise ConfigError(
            f"Cannot create a table at {storage.uri}: its folder cannot be written ({error.strerror}); give this user "
            "write access to it, or another path"
        ) from error
    config = load_table_config(storage)
    if not created:
        check_spec(config, spec)
    return config, created


def check_spec(config: TableConfig, spec: TableSpec) -> None:
    """Refuses what contradicts an existing table (`HoodieWriterUtils.validateTableConfig`, 1.2.0).

    Raises:
        ConfigError: names every contradiction with both values.
        UnsupportedTableError: the table is of a version which is only read.
    """
    check_writable(config)
    found: list[str] = []

    def compare(key: str, given: object, stored: object) -> None:
        if given is not None and str(given).lower() != str(stored).lower():
            found.append(f"{key}: asked for {_shown(given)}, the table has {_shown(stored)}")

    def names(value: tuple[str, ...] | None) -> str | None:
        return None if value is None else ",".join(value)

    compare("hoodie.table.name", spec.name, config.name)
    compare("hoodie.datasource.write.table.type", spec.table_type and spec.table_type.upper(), config.table_type)
    compare("hoodie.write.table.version", spec.version, config.version)
    compare("hoodie.datasource.write.recordkey.field", names(spec.record_key_fields), names(config.record_key_fields))
    compare(
        "hoodie.datasource.write.partitionpath.field",
        None if spec.partition_fields is None else ",".join(name.split(":", 1)[0] for name in spec.partition_fields),
        names(config.partition_fields),
    )
    typed = config.typed_partition_fields
    if typed != config.partition_fields and any(":" in name for name in spec.partition_fields or ()):
        compare("hoodie.datasource.write.partitionpath.field", names(spec.partition_fields), names(typed))
    if config.ordering_fields:  # like Java, accepts an ordering option for a table without ordering fields
        compare("hoodie.table.ordering.fields", names(spec.ordering_fields), names(config.ordering_fields))
    wanted = parse_keygen(spec.keygen_type or "", spec.keygen_class or "")
    if wanted is not None:
        kept = parse_keygen(config.keygen_type, config.keygen_class)
        kept = kept or infer_keygen_type(config.record_key_fields, config.partition_fields)
        compare("hoodie.datasource.write.keygenerator.type", wanted.value, kept.value)
    if config.merge_mode:
        compare("hoodie.record.merge.mode", spec.merge_mode and spec.merge_mode.upper(), config.merge_mode)
    stored_payload = config.payload_class or config.properties.get("hoodie.table.legacy.payload.class", "")
    if stored_payload:
        compare("hoodie.datasource.write.payload.class", spec.payload_class, stored_payload)
    compare(PARTIAL_UPDATE_MODE, spec.partial_update_mode, config.properties.get(PARTIAL_UPDATE_MODE) or "")
    compare(UNAVAILABLE_VALUE, spec.unavailable_value, config.properties.get(UNAVAILABLE_PROPERTY) or "")
    compare("hoodie.datasource.write.hive_style_partitioning", spec.hive_style, config.hive_style)
    compare("hoodie.datasource.write.partitionpath.urlencode", spec.url_encoded, config.url_encoded)
    compare(SLASHED_DATES, spec.slashed_dates, config.slashed_dates)
    for key, text in spec.dates.items():
        stored = config.properties.get(key, config.properties.get(key.replace("hoodie.", "hoodie.deltastreamer.", 1)))
        if stored is not None and stored != text:  # letters of patterns differ by case
            found.append(f"{key}: asked for {text}, the table has {stored}")
    compare(
        "hoodie.table.base.file.format",
        spec.base_file_format and spec.base_file_format.upper(),
        config.base_file_format,
    )
    compare(table_config.META_FIELDS.key, spec.populates_meta_fields, config.populates_meta_fields)
    compare(table_config.DROP_PARTITION_COLUMNS.key, spec.drops_partition_columns, config.drops_partition_columns)
    metafiles = table_config.METAFILES_IN_BASE_FORMAT.key
    compare(metafiles, spec.metafiles_in_base_format, config.metafiles_in_base_format)
    compare("hoodie.table.timeline.timezone", spec.timezone and spec.timezone.upper(), config.timezone)
    compare(ENABLED, spec.logs_changes, config.cdc_enabled)
    if config.cdc_enabled:
        compare(MODE, spec.logging_mode, config.properties.get(MODE) or _FULL)
    if found:
        raise ConfigError(
            f"Cannot write to the table {config.name!r} with options that contradict it: {'; '.join(found)}; "
            "leave these options out or change them"
        )


def _partition_names(keygen: KeyGeneratorType, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The partition fields without their types, which only those of CUSTOM key generators have."""
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


def _check_slashed_dates(partitions: tuple[str, ...], keygen: KeyGeneratorType, hive_style: bool) -> None:
    if len(partitions) != 1 or hive_style or keygen is KeyGeneratorType.TIMESTAMP:
        raise ConfigError(
            f"Cannot create a table with {SLASHED_DATES}=true, the partition fields {','.join(partitions) or '(none)'}"
            f" and the key generator {keygen.value}{', hive-style' if hive_style else ''}; it goes with one partition "
            "field, with SIMPLE, COMPLEX and CUSTOM, and not with hive-style names"
        )


def _partition_extractor(fields: int, hive_style: bool, slashed_dates: bool) -> str:
    if slashed_dates:
        name = "SlashEncodedDayPartitionValueExtractor"
    elif fields == 0:
        name = "NonPartitionedExtractor"
    elif fields > 1:
        name = "MultiPartKeysValueExtractor"
    else:
        name = "HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor"
    return f"org.apache.hudi.hive.{name}"


def _create(storage: Storage, properties: Mapping[str, str]) -> bool:
    """Whether there was no table."""
    if storage.stat(PROPERTIES) is None:
        folders = [AUXILIARY, MARKERS, SCHEMAS]
        if properties["hoodie.timeline.layout.version"] == "2":
            folders.append(f"{TIMELINE}/{ARCHIVE}")
        else:
            folders.append(OLD_ARCHIVE)
        for folder in folders:
            _make_folder(storage, folder)
    return create_table_config(storage, properties)


def _make_folder(storage: Storage, folder: str) -> None:
    # Java lists these folders and expects them to exist; a storage makes folders with their first file only
    seed = f"{folder}/.hudi_py-init.tmp"
    storage.put(seed, b"")
    storage.delete(seed)


def _choice(key: str, value: str | None, choices: tuple[str, ...]) -> str:
    if value is None:
        return choices[0]
    upper = value.strip().upper()
    if upper not in choices:
        raise ConfigError(f"Cannot create a table with {key}={value}; supported are {', '.join(choices)}")
    return upper


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text or "(none)"
