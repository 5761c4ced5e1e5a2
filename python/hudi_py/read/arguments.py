"""Names, keys and partitions as callers pass them to a scan."""

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
"""A point in time; a commit means its time."""


def texts(argument: str, value: str | Iterable[str] | None) -> list[str] | None:
    """The value as a list of strings; a single string becomes a list of one.

    Raises:
        ConfigError: the value, or one of its items, has another type.
    """
    if value is None:
        return None
    given = _listed(argument, value)
    for each in given:
        if not isinstance(each, str):
            raise ConfigError(f"Argument {argument} has {each!r} of type {type(each).__name__}; expected text")
    return given


def key_texts(value: Any) -> list[str] | None:
    """Record keys as the table stores them; a single key becomes a list of one.

    Integers, booleans and dates are converted as Apache Hudi does. The text of other types depends on the column
    (precision of fractions, unit of timestamps), so they are refused.

    Raises:
        ConfigError: a key has one of the other types.
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
        "or integers, booleans or dates: give the text, or filter on the key's columns"
    )


def _listed(argument: str, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise ConfigError(f"Argument {argument}={value!r} is of type {type(value).__name__}; expected a list of texts")
    return list(value)


def check_partitions(wanted: Sequence[str], known: Collection[str], config: TableConfig, uri: str) -> None:
    """Raises ConfigError if the table has no such partition, suggesting the closest match.

    A partition whose rows were all deleted counts as known. While a table has no partitions at all, any is accepted.
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
    """The path without `column=` prefixes."""
    names = {f"{name}=" for name in config.partition_fields}
    parts = path.split("/")
    return "/".join(part.partition("=")[2] if part.partition("=")[0] + "=" in names else part for part in parts)
