"""Data files and file slices."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_py.model.names import BaseFileName, FileId, LogFileName, PartitionPath, join_path


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file that a base file was bootstrapped from without its rows."""

    uri: str
    size: int | None = None
    """Bytes when it was bootstrapped; None if the bootstrap index does not say."""


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file: one version of a file group."""

    partition: PartitionPath
    name: BaseFileName
    size: int
    """Bytes."""
    source: SourceFile | None = None
    """The source file in a bootstrapped table. It has the rows' own columns; this file has only meta columns."""

    @property
    def path(self) -> str:
        """Path relative to the table's base path."""
        return join_path(self.partition, str(self.name))

    @property
    def instant(self) -> str:
        return self.name.instant


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file of one file slice."""

    partition: PartitionPath
    name: LogFileName
    size: int
    """Bytes."""

    @property
    def path(self) -> str:
        """Path relative to the table's base path."""
        return join_path(self.partition, str(self.name))


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file, if there is one, and the log files to merge over it, in order."""

    partition: PartitionPath
    file_id: FileId
    base_instant: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...] = ()

    @property
    def size(self) -> int:
        """Returns the size of all its files in bytes."""
        return (self.base_file.size if self.base_file else 0) + sum(log.size for log in self.log_files)
