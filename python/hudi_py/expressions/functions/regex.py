"""Translates Java's regular expressions (`java.util.regex.Pattern`) to Python's, which backtrack alike.

Constructs with different meanings are translated. Constructs that Python lacks, or that differ between releases of
Java, are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"
_END: Final = r"(?:(?<!\r)(?=\n\Z)|(?=\r\n\Z)|(?=[\r\x85\u2028\u2029]?\Z))"
"""Matches before a line end at the end of a text, or at its end: Java's `$` and `\\Z`."""
_BLANKS: Final = r"\t \xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_CLASSES: Final = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t\n\x0b\f\r ",
    "h": _BLANKS,
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
"""Members of one-letter classes; the capital letter is the complement."""
_NAMED: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9A-Fa-f",
    "Space": r"\t\n\x0b\f\r ",
}
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_QUANTIFIER: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}", re.ASCII)
_CODE: Final = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|0([0-3]?[0-7]{1,2})")
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_GROUP: Final = re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>|\?(?::|=|!|<=|<!|>)")
_REFERENCE: Final = re.compile(r"\$(?:\{([A-Za-z][A-Za-z0-9]*)\}|([0-9]))")


@dataclass(frozen=True)
class JavaRegex:
    """A Java regular expression. Can be pickled."""

    text: str

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Compiles it as a Python pattern.

        Raises:
            ValueError: it is not valid, or has what is not supported; the message says what.
        """
        try:
            return re.compile(_Translation(self.text).translated(), re.ASCII)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"the pattern {self.text!r} is not valid, or not supported: {error}") from error


class _Translation:
    """One pass over a pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._dot_all = False

    def translated(self) -> str:
        flags = _FLAGS.match(self._text)
        parts: list[str] = []
        if flags is not None:
            self._dot_all = "s" in flags[1]
            self._at = flags.end()
            parts.append("(?i)" if "i" in flags[1] else "")
        while self._at < len(self._text):
            parts.append(self._next())
        return "".join(parts)

    def _refused(self, what: str) -> ValueError:
        return ValueError(f"the pattern {self._text!r} has {what}, which is not supported")

    def _next(self) -> str:
        char = self._text[self._at]
        self._at += 1
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == ".":
            return r"[\s\S]" if self._dot_all else f"[^{_LINE_ENDS}]"
        if char == "$":
            return _END
        if char == "(" and self._text.startswith("?", self._at):
            match = _GROUP.match(self._text, self._at)
            if match is None:
                raise self._refused(f"({self._text[self._at : self._at + 3]}")
            self._at = match.end()
            return f"(?P<{match[1]}>" if match[1] else "(" + match[0]
        if char == "{":
            quantifier = _QUANTIFIER.match(self._text, self._at - 1)
            if quantifier is None:
                raise self._refused("a { that does not begin a number of repetitions")
            self._at = quantifier.end()
            return quantifier[0]
        return char if char in "^(|)*+?" else re.escape(char)

    def _escape(self) -> str:
        if self._at == len(self._text):
            raise self._refused("a \\ at its end")
        char = self._text[self._at]
        if char == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 1 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            # a following quantifier applies to its last character, as in Java
            return "".join(map(re.escape, quoted))
        if char in "AzZ":
            self._at += 1
            return {"A": r"\A", "z": r"\Z", "Z": _END}[char]
        if char in "123456789":
            self._at += 1
            if self._text[self._at : self._at + 1].isdigit():
                raise self._refused("a number of two digits after \\")
            return f"(?:\\{char})"
        if self._text.startswith("k<", self._at):
            name, closed, _ = self._text[self._at + 2 :].partition(">")
            if not closed:
                raise self._refused("a \\k< that is not closed")
            self._at += len(name) + 3
            return f"(?P={name})"
        if char == "R":
            self._at += 1
            return r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
        members, negated = self._members()
        return f"[{'^' if negated else ''}{members}]"

    def _members(self) -> tuple[str, bool]:
        """Returns the members of an escape within a class, and whether it means the complement."""
        char = self._text[self._at]
        code = _CODE.match(self._text, self._at)
        if code is not None:
            self._at = code.end()
            number = int(code[4], 8) if code[4] else int(code[1] or code[2] or code[3], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise self._refused(f"\\{code[0]}, which is not a character")
            return _escaped_member(chr(number)), False
        self._at += 1
        if char.lower() in _CLASSES:
            return _CLASSES[char.lower()], char.isupper()
        if char in "pP":
            match = re.compile(r"\{(\w+)\}", re.ASCII).match(self._text, self._at)
            if match is None or match[1] not in _NAMED:
                raise self._refused(f"\\{self._text[self._at - 1 :][:12]}")
            self._at = match.end()
            return _NAMED[match[1]], char == "P"
        if char in _CHARACTERS:
            return _escaped_member(_CHARACTERS[char]), False
        if char.isascii() and char.isalnum():
            raise self._refused(f"\\{char}")
        return _escaped_member(char), False

    def _class(self) -> str:
        negated = self._text.startswith("^", self._at)
        self._at += negated
        parts: list[str] = []
        while True:
            if self._at == len(self._text):
                raise self._refused("a [ that is not closed")
            char = self._text[self._at]
            if char == "]" and parts:
                self._at += 1
                return f"[{'^' if negated else ''}{''.join(parts)}]"
            if char in "[]" or self._text.startswith("&&", self._at):
                raise self._refused(f"{char} within [ ]")
            self._at += 1
            if char == "\\":
                if self._at == len(self._text) or self._text[self._at] in "QE":
                    raise self._refused("\\Q within [ ]")
                members, opposite = self._members()
                if opposite:
                    raise self._refused("a negated class within [ ]")
                parts.append(members)
            elif char == "-" and parts and not self._text.startswith("]", self._at):
                parts.append("-")
            else:
                parts.append(_escaped_member(char))


def _escaped_member(char: str) -> str:
    return "\\" + char if char in r"\[]^-&~|" else char


def replacement(given: str, regex: JavaRegex) -> Callable[[re.Match[str]], str]:
    """Translates a Java replacement (`Matcher.appendReplacement`): `$1` and `${name}` are groups, `\\` quotes.

    Raises:
        ValueError: it names no group of the expression, or ends within a reference.
    """
    groups = regex.compiled.groups
    parts: list[str | int] = []
    position = 0
    while position < len(given):
        if given[position] == "\\" and position + 1 < len(given):
            parts.append(given[position + 1])
            position += 2
        elif given[position] in "\\$":
            reference = _REFERENCE.match(given, position)
            if reference is None:
                raise ValueError(f"the replacement {given!r} has a {given[position]} that refers to no group")
            position = reference.end()
            number = int(reference[2]) if reference[2] else regex.compiled.groupindex.get(reference[1], groups + 1)
            while (
                reference[2]
                and position < len(given)
                and given[position] in "0123456789"
                and number * 10 + int(given[position]) <= groups
            ):
                number = number * 10 + int(given[position])
                position += 1
            if number > groups:
                raise ValueError(f"the replacement {given!r} names the group {reference[0]}, which the pattern lacks")
            parts.append(number)
        else:
            parts.append(given[position])
            position += 1
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)
