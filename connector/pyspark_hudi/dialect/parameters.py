"""Parameters of statements as constants in their text: `:name` and `?` of `args`, `{name}` of keyword arguments."""

from __future__ import annotations

import datetime
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hudi_py.errors import ConfigError
from hudi_py.read import literal
from pyspark_hudi.dialect.text import tokens_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Args = Mapping[str, Any] | Sequence[Any]


def bound(text: str, args: Args) -> str:
    """The statement with constants in place of its markers, as `spark.sql(text, args)` takes them.

    Raises:
        ConfigError: a marker has no value, or the value has no constant in SQL.
    """
    tokens = tokens_of(text) or []
    names, values = (args, iter(())) if isinstance(args, Mapping) else ({}, iter(args))
    pieces: list[str] = []
    done = 0
    for at, token in enumerate(tokens):
        if token.is_word("?") and not isinstance(args, Mapping):
            value, end = next(values, _missing), token.end
        elif token.is_word(":") and isinstance(args, Mapping) and at + 1 < len(tokens):
            name, before = tokens[at + 1], tokens[at - 1] if at else None
            is_field = (
                before is not None and before.end == token.start and (before.is_name or before.text in ("]", ")"))
            )
            if not name.is_name or name.start != token.end or is_field:
                continue  # such as a field of a VARIANT: `v:a`
            value, end = names.get(name.text, _missing), name.end
        else:
            continue
        if value is _missing:
            raise ConfigError(f"Statement {text[:200]!r} has the parameter {text[token.start : end]} without a value")
        pieces += [text[done : token.start], _placed(value)]
        done = end
    return "".join([*pieces, text[done:]])


_missing: Any = object()


@contextmanager
def filled(spark: SparkSession, text: str, given: Mapping[str, Any]) -> Iterator[str]:
    """The statement with what `spark.sql(text, **given)` puts in place of `{name}`: constants, and names for
    DataFrames, which exist in the context."""
    views = _Views()
    try:
        yield views.vformat(text, (), given)
    finally:
        for name in views.names:
            spark.catalog.dropTempView(name)


class _Views(string.Formatter):
    def __init__(self) -> None:
        self.names: list[str] = []

    def format_field(self, value: Any, format_spec: str) -> str:
        if not hasattr(value, "createOrReplaceTempView"):
            return _placed(value)
        name = f"hudi_py_{uuid.uuid4().hex}"
        value.createOrReplaceTempView(name)
        self.names.append(name)
        return name


def _placed(value: Any) -> str:
    """A constant within a statement: its minus after another one would begin a comment, up to the end of the line."""
    found = constant(value)
    return f" {found}" if found.startswith("-") else found


def constant(value: Any) -> str:
    """A Python value as a constant of Spark SQL, in the type that `lit` gives it.

    Raises:
        ConfigError: it is of another type.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(int(value))  # those of enumerations show themselves in other ways, as do NumPy's numbers
    if isinstance(value, float):
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}BD"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        # like PySpark, which takes times without a zone for those of this process
        return f"TIMESTAMP '{value.astimezone(datetime.timezone.utc).isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    raise ConfigError(
        f"Cannot pass a value of type {type(value).__name__} to a statement on a Hudi table; supported: None, bool, "
        "int, float, str, bytes, Decimal, date and datetime: write others into the statement"
    )
