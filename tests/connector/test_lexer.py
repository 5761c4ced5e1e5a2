"""The scanner of statements against Spark's own lexer and parser, over generated texts."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from hudi_py.expressions import lexemes
from pyspark_hudi.dialect.change import _parse_assignments
from pyspark_hudi.dialect.text import Cursor, first_word, tokens_of
from tests.connector.conftest import CONNECT
from tests.support.choice import SEED

pytestmark = pytest.mark.skipif(CONNECT, reason="the parser is the same, and in this process classic sessions alone")

PIECES = (
    *(
        "'it''s'",
        '"a""b"',
        "'\\\\'",
        "'\\''",
        "r'\\'",
        'R"\\"',
        "X'0A'",
        "x''",
        "'--'",
        "'/*'",
        '"\'"',
        "`a``b`",
        "`'`",
    ),
    *(
        "-- c\n",
        "-- c \\\n DELETE\n",
        "-- c\r",
        "-- c\r\n",
        "--\\\r\n",
        "--",
        "/* c */",
        "/* /* c */ */",
        "/* ' */",
        "/**/",
    ),
    *("/*+ X */", "/*/", "/* /*+ */", "*/", "'", '"', "`", "/*", "\\", "#", "@", "é", "日本", "_x", "1a", "a1"),
    *(
        "1",
        "1.",
        ".5",
        "1.5",
        "1.5e3",
        "1e3",
        "1e+3x",
        "1e3x",
        "1L",
        "1Lx",
        "2.5BD",
        "2.5BDx",
        "1F",
        "1.e5_",
        "7S",
        "1..2",
    ),
    *(
        "s3://b/x-y.z",
        "a",
        "end",
        "CASE",
        "r",
        "x",
        ".",
        ",",
        "(",
        ")",
        "=",
        "<=>",
        "=>",
        "->",
        "::",
        ":",
        "?",
        "-",
        "+",
    ),
    *(
        " ",
        "\n",
        "\t",
        "\r",
        "\u00a0",
        "\u2003",
        "!=",
        "||",
        "!",
        ";",
        "%",
        "^",
        "~",
        "&",
        "|",
        "[",
        "]",
        "*",
        "/",
        "!<",
    ),
)
SIGNS = {"HENT_START", "HENT_END"}


def of_spark(spark: SparkSession, text: str) -> list[tuple[int, int, str]] | None:
    """Places and kinds of the tokens; None if Spark finds something that is no SQL."""
    jvm: Any = spark._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(jvm.org.antlr.v4.runtime.CharStreams.fromString(text)))
    lexer.removeErrorListeners()
    names = lexer.getVocabulary()
    made = []
    for token in lexer.getAllTokens():
        name = names.getSymbolicName(token.getType())
        if token.getChannel() == 0:
            made.append((token.getStartIndex(), token.getStopIndex() + 1, name))
    open_comment = importlib.import_module("py4j.java_gateway").get_field(lexer, "has_unclosed_bracketed_comment")
    return None if open_comment or any(name == "UNRECOGNIZED" for _, _, name in made) else made


def kind_of(name: str) -> str:
    if name in ("STRING_LITERAL", "DOUBLEQUOTED_STRING"):
        return "text"
    if name == "BACKQUOTED_IDENTIFIER":
        return "name"
    numbers = ("BIGINT_LITERAL", "SMALLINT_LITERAL", "TINYINT_LITERAL", "INTEGER_VALUE", "EXPONENT_VALUE")
    return (
        "number" if name in (*numbers, "DECIMAL_VALUE", "FLOAT_LITERAL", "DOUBLE_LITERAL", "BIGDECIMAL_LITERAL") else ""
    )


@pytest.mark.slow
def test_lexemes_are_those_of_spark(spark: SparkSession) -> None:
    rng = random.Random(SEED)
    texts = [f"{first}{second}" for first in PIECES for second in PIECES]
    texts = rng.sample(texts, 150) + ["".join(rng.choices(PIECES, k=rng.randrange(3, 9))) for _ in range(350)]
    recognised = 0
    for text in texts:
        expected = of_spark(spark, text)
        found = [each for each in lexemes(text) if each.kind != "comment"]
        other = any(each.kind == "other" for each in found)
        assert other == (expected is None), (text, found, expected)
        if expected is None:
            continue
        recognised += 1
        wholes = [(start, end, kind_of(name)) for start, end, name in expected if kind_of(name)]
        kinds = {"raw": "text", "path": "", "word": "", "sign": ""}
        ours = [(each.start, each.end, kinds.get(each.kind, each.kind)) for each in found]
        assert [each for each in ours if each[2]] == wholes, (text, ours, expected)
        # signs alone are put together in other ways
        words = [each[:2] for each in expected if text[each[0]].isalnum() or text[each[0]] == "_"]
        assert [each[:2] for each in ours if text[each[0]].isalnum() or text[each[0]] == "_"] == words, text
        assert (tokens_of(text) is None) == other
    assert recognised > 80


class Expressions:
    """Random expressions with columns that are named as keywords are."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.cases = True
        """Whether there are expressions CASE: beside them, Spark may take a column `case` for the begin of one."""

    def gap(self) -> str:
        return self.rng.choice([" ", " ", "\n", " /* end */ ", " -- case \\\n end\n", " /* /* , */ when */ "])

    def operand(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            plain = (
                "`case`" if self.cases else "case",
                "end",
                "`end`",
                "t.case",
                "t.end",
                "v",
                "1",
                "2.5",
                "'end'",
                "X'0A'",
                "r'\\'",
                "NULL",
                "-1",
            )
            return rng.choice(plain)
        kind = rng.randrange(6)
        if kind == 0:
            return f"({self.expression(depth - 1)})"
        if kind == 1:
            return f"coalesce({self.expression(depth - 1)},{self.gap()}{self.expression(depth - 1)})"
        if kind in (2, 3) and self.cases:
            subject = rng.choice(["", f" {self.operand(depth - 1)}"])
            parts = [
                f" WHEN {self.expression(depth - 1)}{self.gap()}THEN {self.expression(depth - 1)}"
                for _ in range(rng.randrange(1, 3))
            ]
            last = rng.choice(["", f" ELSE {self.expression(depth - 1)}"])
            return f"CASE{subject}{self.gap()}{''.join(parts)}{last}{self.gap()}END"
        if kind == 4:
            return f"CAST({self.expression(depth - 1)} AS STRING)"
        return f"({self.operand(0)} IN ({self.operand(depth - 1)}, {self.operand(0)}))"

    def expression(self, depth: int) -> str:
        parts = [self.operand(depth)]
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            parts.append(self.rng.choice(["+", "-", "=", "AND", "||", "<=>", "IS DISTINCT FROM"]))
            parts.append(self.operand(depth - 1))
        return self.gap().join(parts)


def test_parts_of_statements_are_those_of_spark(spark: SparkSession) -> None:
    made = Expressions(random.Random(SEED))
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    parsed = 0
    for _ in range(120):
        names = made.rng.sample(["case", "end", "v", "t.end", "`case`"], made.rng.randrange(1, 3))
        made.cases = made.rng.random() < 0.7
        values = [made.expression(2) for _ in names]
        condition = made.expression(2)
        listed = f",{made.gap()}".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        text = f"{made.gap()}UPDATE t{made.gap()}SET {listed}{made.gap()}WHERE {condition}{made.gap()};"
        try:
            plan = parser.parsePlan(text)
        except ParseException:  # such as a comparison of a comparison
            continue
        parsed += 1
        whole = plan.assignments()
        expected = [whole.apply(at).value().toString() for at in range(whole.size())]
        assert first_word(text) == "UPDATE"
        cursor = Cursor(text, tokens_of(text) or [])
        cursor.need("UPDATE")
        cursor.names()
        cursor.need("SET")
        try:
            found = list(_parse_assignments(cursor.until("WHERE"), "t").values())
        except Exception as error:
            if "set twice" in str(error):
                continue
            raise
        cursor.need("WHERE")
        assert [parser.parseExpression(each).toString() for each in found] == expected, text
        assert parser.parseExpression(cursor.rest().source).toString() == plan.condition().get().toString(), text
    assert parsed > 50
