"""Splits Spark SQL into lexemes, and finds and evaluates the text constants in an expression.

Releases of sqlglot differ in escapes, doubled quotes and raw text, so it gets constants in a form that all of them read
alike.

Source: `SqlBaseLexer.g4` and `SparkParserUtils.unescapeSQLString`, Spark 4.
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
