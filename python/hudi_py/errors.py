"""The errors a caller can meet, named by what the caller does next.

```
HudiError
├── TableNotFoundError     (also FileNotFoundError)  no table at the path
├── TableExistsError       (also FileExistsError)    a table is there already
├── ConfigError            (also ValueError)         an option or argument is wrong: change it
├── UnsupportedTableError                            the table needs a feature this release does not have
├── SchemaMismatchError    (also ValueError)         the data does not fit the table's schema
├── CorruptFileError                                 bytes on storage are not what the format says
├── ConflictError                                    another writer touched the same files: redo the write
├── LockError                                        the table lock could not be acquired in time
├── RolledBackError                                  this write was rolled back by another writer
└── HistoryCleanedError                              a file version the query needs was cleaned
```

The first line of every message carries all of it: what was attempted, the value found, what is supported, what to do.
"""

from __future__ import annotations


class HudiError(Exception):
    """Root of every error raised on purpose by hudi-py. What it is about is in its fields, where there is such a thing,
    so that programs need not read the message."""

    path: str | None = None
    """Of a file, relative to the table, or of a table."""
    instant: str | None = None
    """Requested time of the instant at fault or in the way."""
    key: str | None = None
    """An option or column."""
    expected: object = None
    found: object = None

    def __init__(self, message: str = "", **fields: object) -> None:
        """`fields`: `path`, `instant`, `key`, `expected` and `found`. They travel with a pickled error."""
        super().__init__(message)
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise TypeError(f"an error has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(fields)

    @property
    def fields(self) -> dict[str, object]:
        """Those that were given."""
        return {name: value for name, value in self.__dict__.items() if name in _FIELDS}


_FIELDS = frozenset(("path", "instant", "key", "expected", "found"))


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at the path."""

    def __str__(self) -> str:  # OSError formats (errno, text); the message is ours alone
        return str(self.args[0]) if self.args else ""


class TableExistsError(HudiError, FileExistsError):
    """A Hudi table is already at the path."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ConfigError(HudiError, ValueError):
    """An option or argument is wrong, unknown, contradictory or refused."""


class UnsupportedTableError(HudiError):
    """The table uses a feature that this release does not support."""


class SchemaMismatchError(HudiError, ValueError):
    """The data, or a requested column, does not fit the table's schema."""


class CorruptFileError(HudiError):
    """A file's bytes contradict the format."""


class ConflictError(HudiError):
    """Another writer is at work on the table, or has changed the same file groups."""


class LockError(HudiError):
    """The table lock could not be taken or was lost."""


class RolledBackError(HudiError):
    """The write was rolled back, by another writer or because its heartbeat expired."""


class HistoryCleanedError(HudiError):
    """A file version which the query needs was removed by the cleaner."""


def first_line(error: BaseException) -> str:
    """What an error says in its first line, for a message of one's own; its class where it says nothing."""
    return (str(error) or type(error).__name__).splitlines()[0]
