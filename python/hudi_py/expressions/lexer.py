"""Splits Spark SQL into lexemes exactly as Spark does, so that a comment is never mistaken for a statement or the other
way round.

Source: the tokens of `SqlBaseLexer.g4`, Spark 4. tests/connector/test_lexer.py compares both over generated text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LETTER: Final = r"(?:[^\W\d]|[0-9])"
"""A character of an identifier: any letter of Unicode, but only ASCII digits."""
_KIND: Final = r"(?:[fFdD]|[bB][dD])?"
_LEXEME: Final = re.compile(
    rf"""(?P<blank>[ \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+)
    | (?P<comment>--(?:\\\n|[^\r\n])*\r?\n?)
    | (?P<bracketed>/\*(?!\+))
    | (?P<text>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<name>`(?:[^`]|``)*`)
    | (?P<path>[^\W\d_]+://(?:{_LETTER}|[/\-.?=&\#%])+)
    | (?P<number>
        (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?{_KIND}(?![A-Za-z0-9_])
        | [0-9]+[eE][+-][0-9]+{_KIND}
        | [0-9]+(?:[eE][0-9]+)?{_KIND}(?!{_LETTER})
        | [0-9]+[lLsSyY](?!{_LETTER}))
    | (?P<word>{_LETTER}+)
    | (?P<sign>/\*\+|\*/|>>>|<=>|==|<>|!=|<=|!>|>=|!<|<<|>>|\|\||\|>|::|->|=>|[=<>!+\-*/%~&|^:?;(),.@\[\]])
    | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_BRACKET: Final = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A piece of the text."""

    kind: str
    """`comment`, `text`, `raw` (a text without escapes), `name` (in backticks), `number`, `word`, `path` (a URI without
    quotes), `sign`, or `other`: what is not SQL, such as an unclosed quote or comment, and text in dollar signs, which
    is left to Spark."""
    start: int
    end: int
    """One beyond the last character."""


def lexemes(text: str) -> Iterator[Lexeme]:
    """Yields the lexemes of a text from left to right, without the blanks between them."""
    position = 0
    while match := _LEXEME.match(text, position):
        kind, start, position = str(match.lastgroup), position, match.end()
        if kind == "bracketed":
            position, closed = _end_of_comment(text, position)
            kind = "comment" if closed else "other"
        if kind != "blank":
            yield Lexeme(kind, start, position)


def _end_of_comment(text: str, index: int) -> tuple[int, bool]:
    """Returns the end of a bracketed comment, which may contain others, and whether it is closed."""
    depth = 1
    while depth and (bracket := _BRACKET.search(text, index)):
        depth += 1 if bracket[0] == "/*" else -1
        index = bracket.end()
    return (len(text), False) if depth else (index, True)
