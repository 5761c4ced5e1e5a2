"""`hoodie.properties` as text and as a typed value (`HoodieTableConfig`, 1.2.0)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from hudi_py.errors import CorruptFileError
from hudi_py.model.layout import META_FOLDER

CHECKSUM = "hoodie.table.checksum"
NAME = "hoodie.table.name"
DATABASE = "hoodie.database.name"
CONSISTENT_TIMESTAMPS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
SLASHED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
METADATA_TO_MAKE = "hoodie.py.metadata.partitions.to.make"
"""hudi-py's own key: metadata partitions that are not complete yet. It does not use `...partitions.inflight`, since
Apache Hudi's writers fail if the file groups of those do not exist (seen with 1.2.0, table version 6). Apache Hudi
keeps unknown keys."""
FIRST_WRITE = "hoodie.py.first.write"
"""hudi-py's own key: the write that created the table, as long as nothing is committed."""
BOOTSTRAP_COPIES = "hoodie.py.bootstrap.copies"
"""hudi-py's own key: the table is being bootstrapped, and the commit that copies rows comes after that of skeletons."""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")


def parse_properties(text: str) -> dict[str, str]:
    """Parses a Java `Properties` text.

    Raises:
        CorruptFileError: a `\\u` escape is not four hexadecimal digits.
    """
    result: dict[str, str] = {}
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = pending + raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            pending = line[:-1]
            continue
        pending = ""
        key, value = _split(line)
        result[_unescape(key)] = _unescape(value)
    if pending:
        key, value = _split(pending)
        result[_unescape(key)] = _unescape(value)
    return result


def format_properties(properties: Mapping[str, str], comment: str) -> str:
    """Formats Java `Properties` as ASCII text, with sorted keys and a new checksum; `comment` becomes the first
    line."""
    lines = ["#" + comment]
    lines += [f"{_escape(k, key=True)}={_escape(v, key=False)}" for k, v in sorted(with_checksum(properties).items())]
    return "\n".join(lines) + "\n"


def checksum(properties: Mapping[str, str]) -> int:
    """Computes the CRC-32 of `<database>.<table>` (`HoodieTableConfig.generateChecksum`)."""
    return zlib.crc32(f"{properties.get(DATABASE) or ''}.{properties.get(NAME, '')}".encode())


def with_checksum(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties with the checksum of their database and table name."""
    return {**properties, CHECKSUM: str(checksum(properties))}


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line):
        char = line[position]
        if char == "\\":
            position += 2
            continue
        if char in "=: \t\f":
            break
        position += 1
    rest = line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:position], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u":
            digits = text[position : position + 4]
            if not _UNICODE.fullmatch(digits):
                raise CorruptFileError(f"Properties hold the malformed escape '\\u{digits}'; expected 4 hex digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Java writes characters beyond the basic plane as two escapes
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, key: bool) -> str:
    out: list[str] = []
    for index, char in enumerate(text):
        if char == " " and (key or index == 0):
            out.append("\\ ")
        elif char in "\\=:#!":
            out.append("\\" + char)
        elif char in "\t\n\r\f":
            out.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[char])
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2)]
    return "".join(out)


_FLAGS = (
    "hoodie.bootstrap.index.enable",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.datasource.write.hive_style_partitioning",
    CONSISTENT_TIMESTAMPS,
    "hoodie.datasource.write.partitionpath.urlencode",
    SLASHED_DATES,
    "hoodie.partition.metafile.use.base.format",
    "hoodie.populate.meta.fields",
    "hoodie.table.cdc.enabled",
    "hoodie.table.multiple.base.file.formats.enable",
)
_KEYGENS = ("SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM", "NON_PARTITION", "GLOBAL_DELETE", "AUTO_RECORD")
_FILE_FORMATS = ("PARQUET", "ORC", "HFILE", "LANCE")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_FLAGS, ("true", "false")),
    "hoodie.table.type": ("COPY_ON_WRITE", "MERGE_ON_READ"),
    "hoodie.table.format": ("native",),
    "hoodie.table.base.file.format": _FILE_FORMATS,
    "hoodie.table.ro.file.format": _FILE_FORMATS,
    "hoodie.table.timeline.timezone": ("LOCAL", "UTC"),
    "hoodie.timeline.layout.version": ("0", "1", "2"),
    "hoodie.record.merge.mode": ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"),
    "hoodie.table.keygenerator.type": (
        *_KEYGENS,
        *(f"{name}_AVRO" for name in _KEYGENS),
        *("SPARK_SQL", "SPARK_SQL_UUID", "SPARK_SQL_MERGE_INTO", "HOODIE_TABLE_METADATA", "USER_PROVIDED"),
    ),
}
_MAY_BE_EMPTY = frozenset(_CHOICES) - frozenset(_FLAGS)
_KEYS = (
    *_CHOICES,
    CHECKSUM,
    "hoodie.archivelog.folder",
    "hoodie.bootstrap.base.path",
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.strategy.id",
    "hoodie.table.create.schema",
    "hoodie.table.keygenerator.class",
    "hoodie.table.metadata.partitions",
    "hoodie.table.ordering.fields",
    "hoodie.table.partial.update.mode",
    "hoodie.table.partition.fields",
    "hoodie.table.precombine.field",
    "hoodie.table.recordkey.fields",
    "hoodie.table.version",
    "hoodie.timeline.history.path",
    "hoodie.timeline.path",
)
"""Keys that determine the rows of a table."""


def damaged_keys(properties: Mapping[str, str]) -> dict[str, str]:
    """Finds unknown keys that differ from a missing known key in one character, either in the key or instead of the `=`
    after it.

    The checksum covers only the table's name, so a damaged key would count as absent.
    """
    damaged: dict[str, str] = {}
    missing = [key for key in _KEYS if key not in properties]
    for key in properties.keys() - set(_KEYS):
        for known in missing:
            changed = len(key) == len(known) and sum(a != b for a, b in zip(key, known, strict=True)) == 1
            if changed or (key.startswith(known) and not properties[key]):
                damaged[key] = known
    return damaged


def invalid_properties(properties: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Returns the keys with an unknown value, and the values that are valid for them.

    Java treats any text but `true` as false (`Boolean.parseBoolean`), even with a trailing blank, and fails on unknown
    enum constants only when they are used.
    """
    invalid: dict[str, tuple[str, ...]] = {}
    for key, choices in _CHOICES.items():
        text = properties.get(key)
        if text is None or (key in _MAY_BE_EMPTY and not text.strip()):
            continue
        shown = text if key in _FLAGS else text.strip()
        if shown.lower() not in map(str.lower, choices):
            invalid[key] = choices
    return invalid


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Typed view of `hoodie.properties`; unknown keys stay in `properties`."""

    properties: Mapping[str, str]

    def _flag(self, key: str, default: bool) -> bool:
        return self.properties.get(key, str(default)).lower() == "true"

    def _names(self, key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.properties.get(key, "").split(",") if part.strip())

    @classmethod
    def of_version(cls, version: int) -> TableConfig:
        """Returns the configuration of a table of which only the version is known."""
        return cls({"hoodie.table.version": str(version)})

    @property
    def name(self) -> str:
        return self.properties.get(NAME, "")

    @property
    def database(self) -> str:
        return self.properties.get(DATABASE, "")

    @property
    def version(self) -> int:
        """2 to 6, 8 or 9 in readable tables. 0 if the key is absent, -1 if it is not a number.

        Releases before 0.6 did not write the key; Java 1.2 then assumes its own version and reads such tables wrongly.
        """
        text = self.properties.get("hoodie.table.version", "0").strip()
        return int(text) if _is_number(text) else -1

    @property
    def has_completion_times(self) -> bool:
        """Returns whether instants have a completion time, which orders file slices (since version 8)."""
        return self.version >= 8

    @property
    def logs_named_by_instant(self) -> bool:
        """Returns whether each log file is written by one instant and named after it (since version 8). Before, writes
        append to a file named after the base file of its slice."""
        return self.version >= 8

    @property
    def has_extended_log_blocks(self) -> bool:
        """Returns whether log blocks may hold row positions, or values of some columns only (since version 8)."""
        return self.version >= 8

    @property
    def defines_indexes(self) -> bool:
        """Returns whether the table stores index definitions, which named indexes need (since version 8)."""
        return self.version >= 8

    @property
    def index_version(self) -> int:
        """Returns the version of the records of a new index (`HoodieIndexVersion`, 1.2.0): 2 since version 9, else
        1."""
        return 2 if self.version >= 9 else 1

    @property
    def merges_by_mode(self) -> bool:
        """Returns whether the merge mode and related properties decide how rows merge (since version 9). Before, the
        payload class and the merger's strategy do."""
        return self.version >= 9

    @property
    def table_type(self) -> str:
        """`COPY_ON_WRITE` or `MERGE_ON_READ`."""
        return self.properties.get("hoodie.table.type", "COPY_ON_WRITE").strip()

    @property
    def is_mor(self) -> bool:
        return self.table_type == "MERGE_ON_READ"

    @property
    def layout(self) -> int:
        """Timeline layout version: 0, 1 or 2."""
        text = self.properties.get("hoodie.timeline.layout.version", "").strip()
        return int(text) if _is_number(text) else (2 if self.has_completion_times else 1)

    @property
    def timeline_folder(self) -> str:
        """Path relative to the base path."""
        if self.layout < 2:
            return META_FOLDER
        return f"{META_FOLDER}/" + (self.properties.get("hoodie.timeline.path") or "timeline").strip("/")

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        return self._names("hoodie.table.recordkey.fields")

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Names, without the `:TYPE` that CUSTOM key generators store."""
        return tuple(name.split(":", 1)[0] for name in self.typed_partition_fields)

    @property
    def typed_partition_fields(self) -> tuple[str, ...]:
        """As stored: from version 8 on, those of CUSTOM key generators as `name:TYPE`."""
        return self._names("hoodie.table.partition.fields")

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """`hoodie.table.ordering.fields`, else `hoodie.table.precombine.field`."""
        return self._names("hoodie.table.ordering.fields") or self._names("hoodie.table.precombine.field")

    @property
    def base_file_format(self) -> str:
        """In upper case: `PARQUET`, `ORC`, `HFILE`, `LANCE`."""
        default = self.properties.get("hoodie.table.ro.file.format", "PARQUET")
        return self.properties.get("hoodie.table.base.file.format", default).strip().upper()

    @property
    def is_metadata_table(self) -> bool:
        """Returns whether this is a metadata table: only these have HFiles as base files."""
        return self.base_file_format == "HFILE"

    @property
    def base_file_extension(self) -> str:
        """Extension of the names of base files, without the dot."""
        return self.base_file_format.lower()

    @property
    def hive_style(self) -> bool:
        return self._flag("hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encoded(self) -> bool:
        return self._flag("hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def slashed_dates(self) -> bool:
        """Returns whether partitions `yyyy-MM-dd` have paths `yyyy/MM/dd`."""
        return self._flag(SLASHED_DATES, False)

    @property
    def drops_partition_columns(self) -> bool:
        return self._flag("hoodie.datasource.write.drop.partition.columns", False)

    @property
    def metafiles_in_base_format(self) -> bool:
        """Returns whether partition metafiles have the format of base files."""
        return self._flag("hoodie.partition.metafile.use.base.format", False)

    @property
    def timestamps_as_text(self) -> bool:
        """Returns whether timestamps in record keys are text."""
        return self._flag(CONSISTENT_TIMESTAMPS, False)

    @property
    def populates_meta_fields(self) -> bool:
        return self._flag("hoodie.populate.meta.fields", True)

    @property
    def cdc_enabled(self) -> bool:
        return self._flag("hoodie.table.cdc.enabled", False)

    @property
    def timezone(self) -> str:
        """`LOCAL` or `UTC`."""
        return self.properties.get("hoodie.table.timeline.timezone", "LOCAL").strip().upper()

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that readers may use."""
        return self._names("hoodie.table.metadata.partitions")

    @property
    def metadata_partitions_inflight(self) -> tuple[str, ...]:
        """Partitions that are being built beside writers: their file groups exist, and writers update them."""
        return self._names("hoodie.table.metadata.partitions.inflight")

    @property
    def metadata_partitions_to_make(self) -> tuple[str, ...]:
        """Partitions that a writer of hudi-py began to build and did not complete: the next write builds them."""
        return self._names(METADATA_TO_MAKE)

    @property
    def keygen_class(self) -> str:
        return self.properties.get("hoodie.table.keygenerator.class", "").strip()

    @property
    def keygen_type(self) -> str:
        return self.properties.get("hoodie.table.keygenerator.type", "").strip().upper()

    @property
    def payload_class(self) -> str:
        return self.properties.get("hoodie.compaction.payload.class", "").strip()

    @property
    def merge_mode(self) -> str:
        """As stored; empty if absent. `merge.settings` resolves the effective mode."""
        return self.properties.get("hoodie.record.merge.mode", "").strip().upper()

    @property
    def merge_strategy_id(self) -> str:
        old = self.properties.get("hoodie.compaction.record.merger.strategy", "")
        return self.properties.get("hoodie.record.merge.strategy.id", old).strip()


def _is_number(text: str) -> bool:
    """Returns whether a text is a number short enough for a version: Python refuses to parse thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) < 10
