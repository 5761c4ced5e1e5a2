"""The errors that hudi-py raises.

```
HudiError
├── TableNotFoundError     (also FileNotFoundError)  no table at the path
├── TableExistsError       (also FileExistsError)    a table already exists at the path
├── ConfigError            (also ValueError)         an option or argument is wrong: change it
├── UnsupportedTableError                            the table needs a feature that this release does not have
├── SchemaMismatchError    (also ValueError)         the data does not fit the table's schema
├── DuplicateKeyError      (also ValueError)         a key is there already, and may not be: change the data
├── CorruptFileError                                 a file contradicts the format or is missing
├── ConflictError                                    another writer changed the same files: repeat the write
├── LockError                                        the table lock could not be acquired in time
├── RolledBackError                                  this write was rolled back by another writer
├── StorageError           (also OSError)            the storage cannot be reached, or does not do what it was asked
│   └── StorageDeniedError (also PermissionError)    the storage refuses the credentials, or there are none
└── HistoryCleanedError                              a file version that the query needs was cleaned
```

The first line of every message is complete: what was attempted, the value found, what is supported, what to do. Where
that last part depends on the interface, it is a `Remedy`, which the command line and SQL put into their own terms.
Messages name what is in the table; its control characters appear as escapes (`model.words.visible`).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Literal

from hudi_py.model.words import visible, visible_lines

Interface = Literal["python", "cli", "sql"]


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do about an error, in the terms of each interface. Its text is that of the Python API."""

    python: str
    cli: str = ""
    """On the command line; empty: as in Python."""
    sql: str = ""

    def __str__(self) -> str:
        return self.python

    def worded(self, interface: Interface) -> str:
        """Returns the remedy in the terms of an interface."""
        text: str = getattr(self, interface)
        return text or self.python


class HudiError(Exception):
    """Base class of all errors that hudi-py raises. Its fields let programs avoid parsing the message."""

    path: str | None = None
    """Path of a table, or of a file relative to the table."""
    instant: str | None = None
    """Requested time of the instant concerned."""
    key: str | None = None
    """An option or column."""
    expected: object = None
    found: object = None
    remedies: tuple[Remedy, ...] = ()
    """The parts of the message that say what to do, where that depends on the interface."""

    def __init__(self, message: str = "", **fields: object) -> None:
        """`fields`: `path`, `instant`, `key`, `expected`, `found` and `remedies`. They are pickled with the error."""
        super().__init__(visible_lines(message))
        unknown = fields.keys() - _FIELDS - {"remedies"}
        if unknown:
            raise TypeError(f"an error has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(fields)

    @property
    def fields(self) -> dict[str, object]:
        """Returns the fields that are set, without remedies, which the message contains."""
        return {name: value for name, value in self.__dict__.items() if name in _FIELDS}

    def worded(self, interface: Interface) -> str:
        """Returns the message with its remedies in the terms of an interface."""
        text = str(self)
        for remedy in self.remedies:
            text = text.replace(remedy.python, remedy.worded(interface))
        return text


_FIELDS = frozenset(("path", "instant", "key", "expected", "found"))


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at the path."""

    def __str__(self) -> str:  # OSError would format (errno, text)
        return str(self.args[0]) if self.args else ""


class TableExistsError(HudiError, FileExistsError):
    """There already is a Hudi table at the path."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ConfigError(HudiError, ValueError):
    """An option or argument is wrong, unknown, contradictory or refused."""

    problems: tuple[ConfigError, ...] = ()
    """Each problem, where the message names several."""


class UnsupportedTableError(HudiError):
    """The table uses a feature that this release does not support."""


class SchemaMismatchError(HudiError, ValueError):
    """The data, or a requested column, does not fit the table's schema."""


class DuplicateKeyError(HudiError, ValueError):
    """A row's key exists in the table already, or several rows have the same key, and the operation allows neither."""


class CorruptFileError(HudiError):
    """A file's bytes contradict the format."""


class ConflictError(HudiError):
    """Another writer is writing to the table, or has changed the same file groups."""


class LockError(HudiError):
    """The table lock could not be acquired, or it was lost."""


class RolledBackError(HudiError):
    """The write was rolled back, by another writer or because its heartbeat expired."""


class HistoryCleanedError(HudiError):
    """A file version that the query needs was removed by the cleaner."""


class StorageError(HudiError, OSError):
    """The storage cannot be reached, or did not do what it was asked to do."""

    def __init__(self, message: str = "", **fields: object) -> None:
        super().__init__(message, **fields)
        self.errno, self.strerror = errno.EIO, str(self)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageDeniedError(StorageError, PermissionError):
    """The storage refuses the credentials, or there are none."""

    def __init__(self, message: str = "", **fields: object) -> None:
        super().__init__(message, **fields)
        self.errno = errno.EACCES


def is_panic(error: BaseException) -> bool:
    """Returns whether a library in Rust has panicked. Its class is no `Exception`, and each library has a copy of its
    own (pyo3)."""
    return type(error).__name__ == "PanicException"


def missing_library(error: ImportError, purpose: str, extra: str) -> ModuleNotFoundError:
    """Returns the one-line error for an optional library that is not installed.

    Args:
        purpose: what needs it; follows "Cannot" in the message.
        extra: the extra of hudi-py that brings it.
    """
    text = f"Cannot {purpose}: {first_line(error)}; pip install 'hudi-py[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its class if the message is empty, in visible characters."""
    return visible(next((line for line in str(error).splitlines() if line), type(error).__name__))
