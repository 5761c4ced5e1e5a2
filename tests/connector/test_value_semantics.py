"""Value expressions and text constants are as Spark has them, or refused: random ones, by default and in sessions whose
settings change what expressions mean."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_py.errors import ConfigError, SchemaMismatchError
from hudi_py.expressions import parse_expression
from pyspark_hudi.types import spark_schema
from tests.connector.conftest import CONNECT
from tests.connector.test_dialect_meaning import KOLKATA, LENIENT, settings
from tests.connector.test_filter_semantics import CONSTANTS, ROWS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CONNECT, reason="the same expressions are evaluated as without Connect"),
]

NUMBERS = ["1", "2", "-3", "10", "0", "1.5", "0.10", "1e0", "3L", "2S", "4Y", "1.5F", "2.5D", "2147483647", "0.5BD"]
TEXTS = ["'a'", "'12'", "''", "'it''s'", r"r'\n'", r"'\u00e9'", "'a' 'b'", '"say ""it"""', "'2024-01-01'"]
TYPES = ["INT", "BIGINT", "TINYINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(10,2)"]
COLUMNS = {"number": "ilfdnw", "text": "tu", "time": "czy", "truth": "b", "any": "ilfdnwtubxczy"}
MADE = {"number": NUMBERS, "text": TEXTS, "time": ["DATE '2024-01-01'"], "truth": ["TRUE", "NULL"], "any": CONSTANTS}
PIECES = [
    *(
        "a",
        "''",
        "'",
        '"',
        '""',
        "\\",
        "\\\\",
        "\\'",
        "n",
        "r",
        "u0041",
        "U0001F600",
        "0",
        "141",
        "400",
        "%",
        "_",
        "\n",
    ),
    *("--", "/*", "`", " ", "Z", "{", ";", "$", "é", "\\u12"),
]
FAILURES = ("OVERFLOW", "DIVIDE_BY_ZERO", "CAST_INVALID_INPUT", "OUT_OF_RANGE", "REMAINDER_BY_ZERO")
"""Of values; others are of expressions that Spark does not have, of which more are taken here."""


def expression(rng: random.Random, kind: str, depth: int) -> str:
    def inner(what: str) -> str:
        text = expression(rng, what, depth - 1)
        return f"({text})" if rng.random() < 0.55 else text

    if kind == "any":
        kind = rng.choice(["number", "number", "text", "time", "truth"])
    if depth == 0:
        return rng.choice(COLUMNS[kind] if rng.random() < 0.6 else MADE[rng.choice([kind, kind, "any"])])
    forms = [
        lambda: f"CASE WHEN {inner('truth')} THEN {inner(kind)} ELSE {inner(kind)} END",
        lambda: f"CASE {inner('any')} WHEN {inner('any')} THEN {inner(kind)} END",
        lambda: f"if({inner('truth')}, {inner(kind)}, {inner(kind)})",
        lambda: f"{rng.choice(['coalesce', 'nvl', 'nullif', 'greatest', 'least'])}({inner(kind)}, {inner(kind)})",
        lambda: f"CAST({inner('any')} AS {rng.choice(TYPES)})",
    ]
    own = {
        "number": lambda: f"{inner(kind)} {rng.choice(['+', '-', '*', '/', '%', 'DIV'])} {inner(kind)}",
        "text": lambda: f"{inner('text')} || {inner('text')}",
        "time": lambda: expression(rng, "time", 0),
        "truth": lambda: truth(rng, inner),
    }[kind]
    return own() if rng.random() < 0.5 else rng.choice(forms)()


def truth(rng: random.Random, inner: Any) -> str:
    kind = rng.choice(["number", "number", "text", "time", "any"])
    return str(
        rng.choice(
            [
                lambda: f"{inner(kind)} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {inner(kind)}",
                lambda: f"{inner('truth')} {rng.choice(['AND', 'OR'])} {inner('truth')}",
                lambda: f"NOT {inner('truth')}",
                lambda: f"{inner(kind)} IS {rng.choice(['', 'NOT '])}NULL",
                lambda: f"{inner(kind)} {rng.choice(['', 'NOT '])}IN ({inner(kind)}, {inner(kind)})",
                lambda: f"{inner(kind)} {rng.choice(['', 'NOT '])}BETWEEN {inner(kind)} AND {inner(kind)}",
            ]
        )()
    )


def ours(text: str) -> tuple[frozenset[str], list[Any] | None] | None:
    """What it depends on, and its values, None if they fail; None: refused."""
    try:
        parsed = parse_expression(text, ROWS.schema)
    except (ConfigError, SchemaMismatchError):
        return None
    try:
        return parsed.depends, shown(parsed.evaluate(ROWS).to_pylist())
    except ConfigError:
        return parsed.depends, None


def shown(values: list[Any]) -> list[Any]:
    return [("nan" if math.isnan(value) else repr(value)) if isinstance(value, float) else value for value in values]


def judged(frame: DataFrame, texts: list[str]) -> list[list[Any] | str]:
    """Spark's values, many expressions by one query; or its error."""
    try:
        found = frame.selectExpr(*(f"({text}\n) AS c{at}" for at, text in enumerate(texts))).toArrow()
        return [shown(column.to_pylist()) for column in found.columns]
    except PySparkException as error:
        if len(texts) == 1:
            return [str(error).partition("\n")[0]]
        half = len(texts) // 2
        return judged(frame, texts[:half]) + judged(frame, texts[half:])


def differences(frame: DataFrame, answers: dict[str, list[Any] | None]) -> list[str]:
    texts = [text for text, own in answers.items() if own is not None]
    found = []
    for at in range(0, len(texts), 100):
        for text, theirs in zip(texts[at : at + 100], judged(frame, texts[at : at + 100]), strict=True):
            failed = isinstance(theirs, str)
            if theirs != answers[text] and (not failed or any(each in theirs for each in FAILURES)):
                found.append(f"{text}: {answers[text]}, Spark: {theirs}")
    return found


def test_values(spark: SparkSession) -> None:
    rng = random.Random(1)
    answers = {}
    while len(answers) < 1500:
        text = expression(rng, "any", rng.choice([1, 1, 2, 2, 3]))
        found = ours(text)
        # Spark takes a cast of FLOAT within one to DOUBLE away, with its rounding
        if found is not None and "AS FLOAT" not in text:
            answers[text] = found
    frame = spark.createDataFrame(ROWS, spark_schema(ROWS.schema)).cache()
    found = differences(frame, {text: values for text, (_, values) in answers.items()})
    assert not found, "\n".join(found[:40])
    for given, name in ((LENIENT, "ansi"), (KOLKATA, "zone")):
        independent = {text: values for text, (depends, values) in answers.items() if name not in depends}
        assert len(independent) < len(answers)
        with settings(spark, given):
            found = differences(frame, independent)
        assert not found, f"{given}\n" + "\n".join(found[:40])


def test_texts(spark: SparkSession) -> None:
    rng = random.Random(2)
    answers = {}
    while len(answers) < 600:
        quote = rng.choice("''\"")
        text = rng.choice(["", "", "r"]) + quote + "".join(rng.choices(PIECES, k=rng.randint(0, 5))) + quote
        text += rng.choice(["", "", " 'b'", '/* \' */ ""'])
        found = ours(text)
        if found is not None and found[1] is not None:
            answers[text] = found[1][:1]
    found = differences(spark.range(1), answers)
    assert not found, "\n".join(found[:40])
