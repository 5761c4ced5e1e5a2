"""Text constants of Spark SQL: where they stand in an expression, and what they mean.

Releases of sqlglot differ in escapes, doubled quotes and raw texts: it gets them in a form that all of them read alike.

Source: `SqlBaseLexer.g4` and `SparkParserUtils.unescapeSQLString`, Spark 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(
    r"""(?P<line>--(?:\\\n|[^\n])*) | (?P<bracketed>/\*) | (?P<name>`(?:[^`]|``)*`)
    | (?P<raw>(?<!\w)[rR](?:'[^']*'|"[^"]*")) | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")""",
    re.DOTALL | re.VERBOSE,
)
_BRACKET: Final = re.compile(r"/\*|\*/")
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
    """None: a comment."""


def text_constants(text: str) -> Iterator[TextPart]:
    """The text constants and comments of an expression, from left to right."""
    at = 0
    while found := _PART.search(text, at):
        at = found.end()
        if found["bracketed"]:
            at = _end_of_comment(text, at)
        if found["raw"] is not None:
            yield TextPart(found.start(), at, found["raw"][2:-1])
        elif found["text"] is not None:
            yield TextPart(found.start(), at, _value(found["text"]))
        elif found["name"] is None:
            yield TextPart(found.start(), at, None)


def plain(text: str) -> str:
    """The expression with its text constants in a form without raw texts and with two escapes, consecutive ones as one,
    and without comments."""
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
            # what follows a word, such as X'00', is no text that could be continued
            last = None if between[-1:].isalnum() else part
            joined = part.value
            pieces += [between, literal(joined)]
        elif last is not None and not between.strip():
            pass  # a comment after a text, which another one may continue
        else:
            last = None
            pieces.append(between + " ")
        done = part.end
    return "".join([*pieces, " ", text[done:]]) if pieces else text


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment in brackets ends, in which there may be others."""
    depth = 1
    while depth and (bracket := _BRACKET.search(text, at)):
        depth += 1 if bracket[0] == "/*" else -1
        at = bracket.end()
    return len(text) if depth else at


def _value(quoted: str) -> str:
    """What a text constant in quotes means."""

    def unescaped(found: re.Match[str]) -> str:
        if found["doubled"]:
            own = found["doubled"][0] == quoted[0]
            return found["doubled"][0] if own else found["doubled"]
        if found["one"]:
            return _NAMED.get(found["one"], found["one"])
        if found["octal"]:
            return chr(int(found["octal"], 8))
        code = int(found["four"] or found["eight"], 16)
        return chr(code) if code <= _LAST_CODE else "?"

    made = _ESCAPE.sub(unescaped, quoted[1:-1])
    if not _LONE.search(made):
        return made
    # two halves make one character, as in Java; a single one is not in UTF-8
    return _LONE.sub("?", made.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))


def literal(value: str) -> str:
    """A constant text in Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
