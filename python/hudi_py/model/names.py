"""Names of base and log files (`FSUtils`, `HoodieLogFile`, 1.2.0), names of meta columns, and placeholders for null."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern
from typing import Final, NewType

FileId = NewType("FileId", str)
"""Identity of a file group within its partition; contains neither `_` nor `.`."""
PartitionPath = NewType("PartitionPath", str)
"""Directory of a partition relative to the table's base path; empty for an unpartitioned table."""

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"
"""The columns that Apache Hudi adds to rows, in this order (`HoodieRecord`)."""

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""Partition path of null and empty values (`PartitionPathEncodeUtils`, 1.2.0)."""
OLD_NULL_PARTITION: Final = "default"
"""Partition path of null and empty values until table version 4."""
NULL_KEY_PART: Final = "__null__"
"""Placeholder for a null field in a composite record key (`KeyGenUtils`, 1.2.0)."""
EMPTY_KEY_PART: Final = "__empty__"
"""Placeholder for an empty text in a composite record key."""

_BASE = re.compile(
    r"^(?P<file_id>[^._][^_]*)_(?P<token>[^_]+)_(?P<instant>\d+)\.(?P<extension>parquet|orc|hfile|lance)$"
)
_LOG = re.compile(
    r"^\.(?P<file_id>[^._]+)_(?P<instant>[^._]+)\.log\.(?P<version>\d{1,10})(?:_(?P<token>\d+-\d+-\d+)(?P<cdc>\.cdc)?)?$"
)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """`<file id>_<write token>_<base instant>.<extension>`."""

    file_id: FileId
    write_token: str
    instant: str
    extension: str = "parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """`.<file id>_<instant>.log.<version>_<write token>[.cdc]`.

    `instant` is the base instant of the slice in table version 6, the delta commit's own instant since version 8.
    """

    file_id: FileId
    instant: str
    version: int
    write_token: str
    """Empty for names without a token."""
    cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' if self.cdc else ''}"

    @property
    def sort_key(self) -> tuple[str, int, str, bool]:
        """Returns the sort key of the log file within its slice (`HoodieLogFile.LogFileComparator`)."""
        return (self.instant, self.version, self.write_token, self.cdc)


def parse_base_file_name(name: str) -> BaseFileName | None:
    """Parses the name of a base file; None if it is not one."""
    match = _BASE.match(name)
    if not match:
        return None
    # a table has many files but few instants
    return BaseFileName(FileId(match["file_id"]), match["token"], intern(match["instant"]), intern(match["extension"]))


def parse_log_file_name(name: str) -> LogFileName | None:
    """Parses the name of a log file; None if it is not one."""
    match = _LOG.match(name)
    if not match:
        return None
    instant, version, token = intern(match["instant"]), int(match["version"]), match["token"] or ""
    return LogFileName(FileId(match["file_id"]), instant, version, token, bool(match["cdc"]))


def new_file_id() -> FileId:
    """Returns a new file group id, `<uuid4>-0`."""
    return FileId(f"{uuid.uuid4()}-0")


def join_path(*parts: str) -> str:
    """Joins relative path parts with `/`, skipping empty ones."""
    return "/".join(part for part in parts if part)


def folders_above(path: str) -> list[str]:
    """Lists the folders above a path, outermost first: `a` and `a/b` for `a/b/c`."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def nested_partitions(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Returns pairs of partition paths whose second path is within the first, sorted by the second."""
    known = set(paths)
    return [(outer, path) for path in sorted(known) for outer in folders_above(path) if outer in known]
