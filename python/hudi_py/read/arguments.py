"""Names, keys and partitions as a caller gives them to a scan."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from numbers import Integral
from typing import Any

import pyarrow as pa

from hudi_py.errors import ConfigError
from hudi_py.model.instant import CommitTimes
from hudi_py.model.properties import TableConfig

_SHOWN = 3

Moment = str | int | date | CommitTimes
"""A point in time; a commit stands for its own."""


def texts(argument: str, value: str | Iterable[str] | None) -> list[str] | None:
    """A list of texts; one text stands for a list of one.

    Raises:
        ConfigError: the value is neither, or one of the list is no text.
    """
    if value is None:
        return None
    given = _listed(argument, value)
    for each in given:
        if not isinstance(each, str):
            raise ConfigError(f"Argument {argument} has {each!r} of type {type(each).__name__}; expected text")
    return given


def key_texts(value: Any) -> list[str] | None:
    """Record keys as the table has them; one key stands for a list of one.

    Whole numbers, booleans and dates become the text that Apache Hudi makes of them. The text of other types depends on
    the column: fractions on their precision, times on their unit.

    Raises:
        ConfigError: a key is of such a type.
    """
    if value is None:
        return None
    scalar = isinstance(value, (Integral, date, pa.Scalar))
    return [_key_text(each) for each in ([value] if scalar else _listed("keys", value))]


def _key_text(key: Any) -> str:
    if isinstance(key, pa.Scalar):
        key = key.as_py()
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, Integral):
        return str(int(key))
    if isinstance(key, date) and not isinstance(key, datetime):
        return key.isoformat()
    raise ConfigError(
        f"Argument keys has {key!r} of type {type(key).__name__}; expected text as in the column _hoodie_record_key, "
        "or whole numbers, booleans or dates: give the text, or filter on the key's columns"
    )


def _listed(argument: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise ConfigError(f"Argument {argument}={value!r} is of type {type(value).__name__}; expected a list of texts")
    return list(value)


def check_partitions(wanted: Sequence[str], known: Collection[str], config: TableConfig, uri: str) -> None:
    """Raises ConfigError where a partition is none of the table's, with the nearest that is.

    A partition whose rows were all deleted is known, and has no rows. Of a table without any partition, which has not
    been written yet, every one may be read.
    """
    for path in wanted:
        if path in known or not known:
            continue
        bare = {_bare(each, config): each for each in known}
        near = bare.get(_bare(path, config)) or next(iter(difflib.get_close_matches(path, known, 1)), None)
        some = ", ".join(repr(each) for each in sorted(known)[:_SHOWN])
        more = f" and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else ""
        hint = f"did you mean '{near}'? It has {some}{more}" if near is not None else f"it has {some}{more}"
        raise ConfigError(f"Table at {uri} has no partition '{path}'; {hint}; Table.partitions() lists them")


def _bare(path: str, config: TableConfig) -> str:
    """A path without the names of columns, as tables have it which are not in the style of Hive."""
    names = {f"{name}=" for name in config.partition_fields}
    parts = path.split("/")
    return "/".join(part.partition("=")[2] if part.partition("=")[0] + "=" in names else part for part in parts)
