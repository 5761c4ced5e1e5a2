"""Finds text constants of Spark SQL in an expression, and evaluates them.

Releases of sqlglot differ in escapes, doubled quotes and raw text, so it gets constants in a form that all of them read
alike.

Source: `SqlBaseLexer.g4` and `SparkParserUtils.unescapeSQLString`, Spark 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hudi_py.expressions.lexer import lexemes

_ESCAPE: Final = re.compile(
    r"""\\u(?P<four>[0-9a-fA-F]{4}) | \\U(?P<eight>[0-9a-fA-F]{8}) | \\(?P<octal>[01][0-7]{2}) | \\(?P<one>.)
    | (?P<doubled>''|"")""",
    re.DOTALL | re.VERBOSE,
)
_NAMED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_LONE: Final = re.compile("[\ud800-\udfff]")
_LAST_CODE: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text constant or a comment."""

    start: int
    end: int
    """One beyond the last character."""
    value: str | None
    """The constant's value; None for a comment."""


def text_constants(text: str) -> Iterator[TextPart]:
    """Yields the text constants and comments of an expression, from left to right."""
    for lexeme in lexemes(text):
        if lexeme.kind in ("text", "raw"):
            yield TextPart(lexeme.start, lexeme.end, text_value(text[lexeme.start : lexeme.end]))
        elif lexeme.kind == "comment" or (lexeme.kind == "other" and text.startswith("/*", lexeme.start)):
            yield TextPart(lexeme.start, lexeme.end, None)


def text_value(constant: str) -> str:
    """Evaluates a text constant, given in SQL with its quotes."""
    return constant[2:-1] if constant[0] in "rR" else _constant_value(constant)


def plain(text: str) -> str:
    """Rewrites the text constants of an expression in the form for sqlglot: not raw, with two escapes, consecutive ones
    joined, and without comments."""
    pieces: list[str] = []
    done = 0
    last: TextPart | None = None
    joined = ""
    for part in text_constants(text):
        between = text[done : part.start]
        if part.value is not None and last is not None and not between.strip():
            joined += part.value
            pieces[-1] = literal(joined)
        elif part.value is not None:
            # after a word, such as in X'00', it is no text that could be continued
            last = None if between[-1:].isalnum() else part
            joined = part.value
            pieces += [between, literal(joined)]
        elif last is not None and not between.strip():
            pass  # a comment after a text; another text may continue the first one
        else:
            last = None
            pieces.append(between + " ")
        done = part.end
    return "".join([*pieces, " ", text[done:]]) if pieces else text


def _constant_value(quoted: str) -> str:
    """Evaluates a quoted text constant."""

    def unescaped(match: re.Match[str]) -> str:
        if match["doubled"]:
            own = match["doubled"][0] == quoted[0]
            return match["doubled"][0] if own else match["doubled"]
        if match["one"]:
            return _NAMED.get(match["one"], match["one"])
        if match["octal"]:
            return chr(int(match["octal"], 8))
        code = int(match["four"] or match["eight"], 16)
        return chr(code) if code <= _LAST_CODE else "?"

    made = _ESCAPE.sub(unescaped, quoted[1:-1])
    if not _LONE.search(made):
        return made
    # two surrogates make one character, as in Java; a single one cannot be UTF-8
    return _LONE.sub("?", made.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))


def literal(value: str) -> str:
    """Formats a text as a Spark SQL constant."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
