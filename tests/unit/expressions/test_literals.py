"""Text constants: what they mean, and where they stand. The values are Spark 4's."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from hudi_py.expressions import parse_condition, parse_expression, parse_filter, text_constants
from hudi_py.expressions.literals import plain
from hudi_py.expressions.predicate import Literal

ROWS = pa.record_batch({"t": ["it's", "its", "A", "C:\\", None], "x": [b"", b"a", b"\x00\xff", None, None]})
VALUES = {
    r"''": "",
    r"'it''s'": "it's",
    r"''''": "'",
    "\"it''s\"": "it''s",
    r'"say ""it"""': 'say "it"',
    r"""'say ""it""'""": 'say ""it""',
    r"'it\'s'": "it's",
    r"'a' 'b'": "ab",
    "'a' -- it's\n \"b\" /* 'c' */ r'\\n'": "ab\\n",
    r"r'\'": "\\",
    r'R"\u0041"': r"\u0041",
    r"'\u0041\U00000042\103'": "ABC",
    r"'\U0001F600'": "\U0001f600",
    r"'\ud83d\ude00'": "\U0001f600",
    r"'\ud83d'": "?",
    r"'\400\18\u12\x41'": "40018u12x41",
    r"'\0\b\n\r\t\Z'": "\0\b\n\r\t\x1a",
    r"'\a\f\v\'\"\\'": "afv'\"\\",
    r"'100\%\_'": r"100\%\_",
    "'a\nb'": "a\nb",
    "'--/*`'": "--/*`",
}


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str) -> None:
    node = parse_expression(text, ROWS.schema).node
    assert isinstance(node, Literal)
    assert node.value == VALUES[text]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("t = 'it''s'", [True, False, False, False, None]),
        (r"t = r'C:\' OR t = '\u0041'", [False, False, True, True, None]),
        ("t = 'A' -- or it's", [False, False, True, False, None]),
        ("t /* it's /* nested */ ' */ = 'A'", [False, False, True, False, None]),
        ("`t` LIKE 'it''_'", [True, False, False, False, None]),
        ("x = X'00' OR x = X'00FF'", [False, False, True, None, None]),
        ("t IN ('i' 'ts', 'B')", [False, True, False, False, None]),
    ],
)
def test_conditions(text: str, found: list[bool | None]) -> None:
    condition = parse_filter(text, ROWS.schema)
    assert condition is not None
    assert condition.evaluate(ROWS).to_pylist() == found
    assert parse_condition(text, ROWS.schema).evaluate(ROWS).to_pylist() == found


def test_any_text_is_quoted_for_every_release_of_the_parser() -> None:
    rng = random.Random(1)
    pieces = [
        "'",
        '"',
        "\\",
        "\\n",
        "\\u0041",
        "%",
        "_",
        "\n",
        "\r",
        "\0",
        "\x1a",
        "--",
        "/*",
        "`",
        "a",
        " ",
        "\U0001f600",
    ]
    for _ in range(300):
        value = "".join(rng.choices(pieces, k=rng.randint(0, 6)))
        written = "'" + value.replace("\\", "\\\\").replace("'", rng.choice(["''", "\\'"])) + "'"
        node = parse_expression(written, ROWS.schema).node
        assert isinstance(node, Literal)
        assert node.value == value


def test_where_they_stand() -> None:
    text = "`it's` = r'\\' AND /* 'no' */ X'00' = DATE'2026-01-01' -- 'no'\n OR \"a\"\"b\" <> ''"
    found = [(text[part.start : part.end], part.value) for part in text_constants(text) if part.value is not None]
    assert found == [("r'\\'", "\\"), ("'00'", "00"), ("'2026-01-01'", "2026-01-01"), ('"a""b"', 'a"b'), ("''", "")]
    assert " ".join(plain(text).split()) == "`it's` = '\\\\' AND X'00' = DATE'2026-01-01' OR 'a\"b' <> ''"
    assert plain("a = b /* open").strip() == "a = b"
