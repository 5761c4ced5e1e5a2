"""Resolves the options of a call, with defaults from `hudi-defaults.conf`.

The file is found and read as by `DFSPropertiesConfiguration`, 1.2.0.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from hudi_py.config import (
    bootstrap,
    clustering,
    compaction,
    concurrency,
    harmless,
    incremental,
    indexes,
    interop,
    monitoring,
    read,
    refused,
    services,
    table,
    write,
)
from hudi_py.config.option import Option, Policy, Problems, Scope, option_text
from hudi_py.errors import ConfigError

_log = logging.getLogger(__name__)

T = TypeVar("T")

_DEFAULTS_FILE = "hudi-defaults.conf"
_FOLDER_VARIABLE = "HUDI_CONF_DIR"
_SYSTEM_FOLDER = Path("/etc/hudi/conf")

SECTIONS: Mapping[str, tuple[Option[Any], ...]] = {
    "Reading": read.OPTIONS,
    "Incremental reads": incremental.OPTIONS,
    "Indexes in reads": indexes.READ_OPTIONS,
    "Reading through Spark": read.SPARK_OPTIONS,
    "Streaming reads": incremental.STREAM_OPTIONS,
    "Writing": write.OPTIONS,
    "Streaming writes": incremental.SINK_OPTIONS,
    "Bootstrapping": bootstrap.OPTIONS,
    "Creating a table": table.OPTIONS,
    "Metadata table": indexes.METADATA_OPTIONS,
    "Lock, clock and heartbeat": concurrency.LOCK_OPTIONS,
    "Concurrent writers": concurrency.OPTIONS,
    "Table services after a commit": services.OPTIONS,
    "Clean": services.CLEAN_OPTIONS,
    "Archive": services.ARCHIVE_OPTIONS,
    "Compaction": compaction.OPTIONS,
    "Clustering": clustering.OPTIONS,
    "Partition TTL": services.TTL_OPTIONS,
    "Rollback": concurrency.ROLLBACK_OPTIONS,
    "Catalogs": interop.CATALOG_OPTIONS,
    "Commit callbacks": monitoring.CALLBACK_OPTIONS,
    "Metrics": monitoring.METRICS_OPTIONS,
    "Iceberg": interop.ICEBERG_OPTIONS,
}
"""Every option with an effect, by its heading in docs/options.md."""
HONOURED: tuple[Option[Any], ...] = tuple(option for options in SECTIONS.values() for option in options)
ALL: tuple[Option[Any], ...] = (*HONOURED, *refused.OPTIONS, *harmless.OPTIONS)
"""Every declared option. Families of harmless keys are in `harmless.PREFIXES`."""
STORAGE_PREFIX = "storage."
"""Prefix of storage options, removed before they reach the storage. They are never shown, logged or put into splits."""
SECRET_PREFIX = f"{STORAGE_PREFIX}secret."
"""Prefix of storage options whose key Spark redacts: it shows the options of a write in plans and in its event log,
except values of keys that contain `secret` (`spark.redaction.regex`)."""
SPARK_KEYS = frozenset({"path", "paths", "checkpointlocation", "queryname", "provider", "owner", "location"})
"""Keys that Spark itself adds to the options."""

_ARGUMENTS: Mapping[Option[Any], str] = {
    table.RECORD_KEY: "record_key= of hudi_py.write",
    table.PARTITION_PATH: "partition_by= of hudi_py.write",
    table.ORDERING: "ordering_by= of hudi_py.write",
    table.TABLE_TYPE: "table_type= of hudi_py.write",
    table.TABLE_VERSION: "table_version= of hudi_py.write",
    write.OPERATION: "operation= of hudi_py.write",
    read.QUERY_TYPE: "query_type= of Table.scan",
    read.AS_OF_INSTANT: "as_of= of Table.scan",
    incremental.BEGIN: "begin= of Table.scan",
    incremental.END: "end= of Table.scan",
    read.KEYS: "keys= of Table.scan",
    read.MERGE_TYPE: "merge= of Table.scan",
    read.CHANGELOG: "emit_deletes= of Table.scan",
}
"""Options that a Python function takes as arguments."""
SECRET_KEYS = frozenset(option.key for option in HONOURED if option.secret)
"""Options whose value is secret. It travels with the storage options."""
_BY_KEY: dict[str, tuple[str, Option[Any]]] = {key.lower(): (key, option) for option in ALL for key in option.keys}


@dataclass(frozen=True, slots=True)
class Options:
    """Validated options of a call. Can be pickled.

    `values` maps the first key of each option that was set to its text, `names` to the key that was used.
    """

    scope: Scope
    values: Mapping[str, str]
    names: Mapping[str, str] = field(repr=False)
    storage: Mapping[str, str] = field(repr=False)
    """Storage options (prefix `storage.` removed) and options whose value is secret. Never shown."""
    commit_metadata: Mapping[str, str]
    """Extra commit metadata: options with the prefix in `hoodie.datasource.write.commitmeta.key.prefix`. Keys as
    given."""

    @classmethod
    def resolve(
        cls,
        given: Mapping[str, object] | None = None,
        scope: Scope = Scope.WRITE,
        *,
        defaults: Mapping[str, str] | None = None,
        problems: Problems | None = None,
    ) -> Options:
        """Validates the options of a call.

        Args:
            given: keys in any case; values are text, bool, number, path or list of text. None counts as not set.
            scope: `READ` or `WRITE`. Options that do not apply there are not checked.
            defaults: used for options that are not given; None: those of `hudi-defaults.conf`.
            problems: collects errors instead of raising them; the caller adds its own and raises them all.

        Raises:
            ConfigError: an unknown key (the error suggests the nearest known one), an invalid value, a refused option,
                or an option given twice with different values. All errors are reported at once.
        """
        gathered = Problems() if problems is None else problems
        sorted_out = _SortedOptions(scope, _commit_prefix(given or {}))
        for key, value in (given or {}).items():
            with gathered.collected():
                text = _text(key, value)
                if text is not None:
                    sorted_out.add(key, text)
        explicit = frozenset(sorted_out.values)
        for key, text in (_load_defaults() if defaults is None else defaults).items():
            with gathered.collected():
                sorted_out.add_default(key, text, explicit)
        if problems is None:
            gathered.check()
        values, storage = sorted_out.values, sorted_out.storage
        storage |= {key: values.pop(key) for key in SECRET_KEYS if key in values}
        return cls(scope, values, sorted_out.names, storage, sorted_out.extra)

    def get(self, option: Option[T]) -> T:
        """Returns the option's value, or its default."""
        text = (self.storage if option.secret else self.values).get(option.key)
        return option.default if text is None else option.read(text, self.names.get(option.key))

    def asked(self, option: Option[T]) -> T | None:
        """Returns the option's value if it was set in the call or in `hudi-defaults.conf`."""
        return self.get(option) if self.given(option) else None

    def given(self, option: Option[Any]) -> bool:
        """Returns whether the option was set in the call or in `hudi-defaults.conf`."""
        return option.key in (self.storage if option.secret else self.values)

    def name_of(self, option: Option[Any]) -> str:
        """Returns the key that was used to set the option, for messages; its first key if it was not set."""
        return self.names.get(option.key, option.key)

    def replace(self, values: Mapping[Option[Any], str]) -> Options:
        """Returns a copy with some options set."""
        texts = {option.key: text for option, text in values.items()}
        return replace(self, values={**self.values, **texts})

    def without(self, *options: Option[Any]) -> Options:
        """Returns a copy without some options."""
        keys = {option.key for option in options}
        return replace(self, values={key: text for key, text in self.values.items() if key not in keys})

    def for_storage(self, given: Mapping[str, str] | None = None) -> dict[str, str] | None:
        """Merges the storage options in this value with those in `given`, which win; None if there are none."""
        return {**self.storage, **(given or {})} or None

    def with_storage(self, given: Mapping[str, str] | None) -> Options:
        """Returns a copy that has further storage options, which win."""
        return replace(self, storage={**self.storage, **given}) if given else self

    def without_credentials(self) -> Options:
        """Returns a copy without storage options and secrets, which other processes may receive."""
        return replace(self, storage={}) if self.storage else self


DEFAULTS: Final = Options(Scope.WRITE, {}, {}, {}, {})
"""Options with every value at its default, regardless of `hudi-defaults.conf`."""


def _text(key: object, value: object) -> str | None:
    """Converts a value to text; None if it is not set."""
    if not isinstance(key, str):
        raise ConfigError(f"Option key {key!r} is not valid: expected text")
    if value is None:
        return None
    if isinstance(value, (str, int, float, os.PathLike)) or _is_texts(value):
        return option_text(value)
    raise ConfigError(f"Option {key} has a value of type {type(value).__name__}: expected text, number or bool")


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)


@dataclass(slots=True)
class _SortedOptions:
    """The options of a call, grouped by purpose."""

    scope: Scope
    prefix: str
    """The key prefix of extra commit metadata; empty if there is none."""
    values: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, text: str) -> None:
        lowered = key.lower()
        known = _BY_KEY.get(lowered)
        if known is not None:
            _take(known[1], key, text, self.values, self.names, self.scope)
        elif lowered.startswith(STORAGE_PREFIX):
            hidden = lowered.startswith(SECRET_PREFIX)
            self.storage[key[len(SECRET_PREFIX if hidden else STORAGE_PREFIX) :]] = text
        elif _in_family(lowered):
            pass
        elif self.scope is not Scope.READ and self.prefix and lowered.startswith(self.prefix):
            self.extra[key] = text
        elif lowered not in SPARK_KEYS:
            raise ConfigError(_unknown(key))

    def add_default(self, key: str, text: str, explicit: Collection[str]) -> None:
        """Adds an option from `hudi-defaults.conf`, unless the call sets it."""
        known = _BY_KEY.get(key.lower())
        if known is not None and known[1].key not in explicit:
            _take(known[1], key, text, self.values, self.names, self.scope)
        elif known is None and key.lower().startswith("hoodie.") and not _in_family(key.lower()):
            raise ConfigError(f"{_unknown(key)} (from hudi-defaults.conf)")


def _take(
    option: Option[Any], key: str, text: str, values: dict[str, str], names: dict[str, str], scope: Scope
) -> None:
    if option.policy is Policy.REFUSED:
        if option.scope.counts_in(scope) and not option.asks_for_nothing(text):
            taken = [value for value in option.accepts if value]
            hint = f"; accepted is only {' or '.join(taken)}" if taken else "; leave it out"
            raise ConfigError(f"Option {key} = '{text}' is not supported: {option.why}{hint}")
        return
    if option.policy is Policy.HARMLESS:
        if option.why and option.scope.counts_in(scope) and not option.asks_for_nothing(text):
            _log.warning("option %s = '%s' has no effect: %s", key, text, option.why)
        return
    if option.scope.counts_in(scope):
        value = option.read(text, key)
        before = values.get(option.key)
        if before is not None and option.read(before) != value:
            raise ConfigError(
                f"Options {names[option.key]} = '{before}' and {key} = '{text}' are the same option with different "
                "values: set only one of them"
            )
    values[option.key] = text
    names[option.key] = key


def _commit_prefix(given: Mapping[str, object]) -> str:
    key = write.COMMIT_METADATA_PREFIX.key
    for name, value in given.items():
        if isinstance(name, str) and name.lower() == key:
            return str(value).strip().lower()
    return write.COMMIT_METADATA_PREFIX.default


def _in_family(lowered: str) -> bool:
    return any(lowered.startswith(family.prefix) for family in harmless.PREFIXES)


_FOREIGN: Final = {
    **dict.fromkeys(("timestampasof", "versionasof"), ("Delta Lake", read.AS_OF_INSTANT.key)),
    **dict.fromkeys(("as-of-timestamp", "snapshot-id"), ("Iceberg", read.AS_OF_INSTANT.key)),
    "readchangefeed": ("Delta Lake", f"{read.QUERY_TYPE.key}=incremental"),
    **dict.fromkeys(("startingtimestamp", "startingversion"), ("Delta Lake", incremental.BEGIN.key)),
    **dict.fromkeys(("endingtimestamp", "endingversion"), ("Delta Lake", incremental.END.key)),
}
"""Options of other formats, by key in lower case: the format, and the equivalent option here."""


def _unknown(key: str) -> str:
    lowered = key.lower()
    if lowered in _FOREIGN:
        owner, own = _FOREIGN[lowered]
        return f"Unknown option {key}, which is {owner}'s: use {own}"
    named = [option for option, argument in _ARGUMENTS.items() if argument.partition("=")[0] == lowered]
    near = difflib.get_close_matches(lowered, list(_BY_KEY), n=1, cutoff=0.6)
    if named or near:
        meant = named[0] if named else _BY_KEY[near[0]][1]
        shown = meant.key if named else _BY_KEY[near[0]][0]
        argument = f" ({_ARGUMENTS[meant]})" if meant in _ARGUMENTS else ""
        return f"Unknown option {key}: did you mean {shown}{argument}? docs/options.md lists every option"
    if key.lower().startswith(("fs.", "aws", "s3", "azure", "gs", "google")):
        return f"Unknown option {key}: options of the storage are given as {STORAGE_PREFIX}<name>"
    return f"Unknown option {key}: docs/options.md lists every option"


def _load_defaults() -> dict[str, str]:
    """Loads the options in `$HUDI_CONF_DIR`, and those in `/etc/hudi/conf` that it does not set.

    A line is `key=value` or `key value`; `#` starts a comment line; `include=<file>` includes another file, relative to
    the including one.

    Raises:
        ConfigError: `HUDI_CONF_DIR` is set and has no readable file of this name, or files include each other.
    """
    result: dict[str, str] = {}
    system = _SYSTEM_FOLDER / _DEFAULTS_FILE
    if system.is_file():
        _read_defaults(system, result, ())
    folder = os.environ.get(_FOLDER_VARIABLE, "")
    if folder:
        path = _local_path(folder) / _DEFAULTS_FILE
        if path != system:
            _read_defaults(path, result, ())
    return result


def _local_path(folder: str) -> Path:
    parts = urlsplit(folder)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else folder)
    raise ConfigError(f"{_FOLDER_VARIABLE} = '{folder}' is not supported: expected a folder on the local file system")


def _read_defaults(path: Path, into: dict[str, str], including: tuple[Path, ...]) -> None:
    if path in including:
        raise ConfigError(f"Options file {path} includes itself, through {' -> '.join(map(str, including))}")
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        source = f"named by {including[-1]}" if including else f"named by {_FOLDER_VARIABLE}"
        raise ConfigError(f"Options file {path}, {source}, cannot be read: {error}") from error
    for line in lines:
        if not line or line.startswith("#") or not ("=" in line or re.search(r"\s", line)):
            continue
        collapsed = re.sub(r"\s+", " ", line)
        key, _, value = collapsed.partition("=" if "=" in collapsed else " ")
        key, value = key.strip(), value.strip()
        if not key:
            continue
        if line.startswith(("include=", "include =")):
            _read_defaults(path.parent / value, into, (*including, path))
        else:
            into[key] = value
