"""The text of a statement as tokens. What a statement takes over (queries, expressions, columns) stays as it was
written, cut out between tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hudi_py.errors import ConfigError
from hudi_py.read import TextPart, text_constants

_BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+(?!\w)")
_OPENING, _CLOSING = ("(", "["), (")", "]")


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    """Of names and constants in quotes: what is between them."""
    kind: str
    """`name` (in backticks), `text`, `number`, or `word` for words and operators."""
    start: int
    end: int
    """One beyond the last character."""

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        return self.kind == "name" or (self.kind == "word" and bool(re.fullmatch(r"\w+", self.text)))


def first_word(text: str) -> str:
    """The first word of a statement, in upper case; empty if there is none."""
    blank = _BLANK.match(text)
    found = _WORD.match(text, blank.end() if blank else 0)
    return found.group().upper() if found else ""


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a statement without a semicolon at its end; None: sqlglot cannot read it."""
    import sqlglot
    from sqlglot import TokenType
    from sqlglot.errors import SqlglotError

    kinds = {TokenType.IDENTIFIER: "name", TokenType.STRING: "text", TokenType.NUMBER: "number"}
    blank = _BLANK.match(text)
    start = blank.end() if blank else 0
    word = _WORD.match(text, start)
    # sqlglot takes the rest of commands such as CALL for one token
    skipped = word.end() if word else start
    constants = {part.start: part for part in text_constants(text) if part.value is not None}
    try:
        # constants of the same length in their places: releases of sqlglot differ in where some of them end
        found = sqlglot.tokenize(_masked(text, constants.values())[skipped:], read="spark")
    except (SqlglotError, RecursionError):
        return None
    made = [Token(word.group(), "word", start, skipped)] if word else []
    for token in found:
        at, end = skipped + token.start, skipped + token.end + 1
        kind = kinds.get(token.token_type, "word")
        constant = constants.get(at)
        if constant is not None and kind == "text":
            made.append(Token(str(constant.value), kind, at, end))
        elif kind == "word":  # such as GROUP BY, which is one token
            for part in re.finditer(r"\S+", text[at:end]):
                made.append(Token(part.group(), kind, at + part.start(), at + part.end()))
        else:
            made.append(Token(token.text, kind, at, end))
    while made and made[-1].is_word(";"):
        made.pop()
    return _joined(made)


def _masked(text: str, constants: Iterable[TextPart]) -> str:
    pieces, done = [], 0
    for part in constants:
        pieces += [text[done : part.start], f"'{'x' * (part.end - part.start - 2)}'"]
        done = part.end
    return "".join([*pieces, text[done:]])


def _joined(tokens: Sequence[Token]) -> list[Token]:
    """With `hudi-py` as one name, also where it is not in backticks."""
    made: list[Token] = []
    for token in tokens:
        if (
            token.is_word("PY")
            and len(made) > 1
            and made[-1].text == "-"
            and made[-2].is_word("HUDI")
            and token.start - 1 == made[-1].start == made[-2].end
        ):
            made[-2:] = [Token("hudi-py", "name", made[-2].start, token.end)]
        else:
            made.append(token)
    return made


@dataclass(slots=True)
class Cursor:
    """Reads a statement from left to right."""

    text: str
    tokens: Sequence[Token]
    at: int = 0
    end: int = field(default=-1)
    """One beyond the last token."""

    def __post_init__(self) -> None:
        if self.end < 0:
            self.end = len(self.tokens)

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < self.end else None

    def sees(self, *words: str) -> bool:
        """Whether these words follow."""
        following = self.tokens[self.at : min(self.at + len(words), self.end)]
        return len(following) == len(words) and all(
            token.is_word(word) for token, word in zip(following, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Skips these words, if they follow."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.refused(f"{' '.join(words)} is expected")

    def refused(self, why: str) -> ConfigError:
        token = self.token
        place = "at its end" if token is None else f"at {self.text[token.start : token.start + 40]!r}"
        return ConfigError(f"Statement {self.text[:200]!r} cannot be run on a Hudi table: {why} {place}")

    def name(self) -> str:
        token = self.token
        if token is None or not token.is_name:
            raise self.refused("a name is expected")
        self.at += 1
        return token.text

    def names(self) -> tuple[str, ...]:
        """The parts of a name with dots."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def constant(self) -> str:
        token = self.token
        if token is None or token.kind not in ("text", "number"):
            raise self.refused("a constant is expected")
        self.at += 1
        return token.text

    def group(self) -> Cursor:
        """What is between the parenthesis that follows and the one that closes it."""
        self.need("(")
        start = self.at
        self.skip_to(lambda: self.sees(")"))
        self.need(")")
        return Cursor(self.text, self.tokens, start, self.at - 1)

    def skip_to(self, found: Callable[[], bool]) -> None:
        """Goes on to where `found` is true, outside of parentheses and CASE that open on the way, or to the end."""
        depth = 0
        while self.at < self.end:
            if depth == 0 and found():
                return
            token = self.tokens[self.at]
            if token.is_word(*_OPENING, "CASE"):
                depth += 1
            elif token.is_word(*_CLOSING, "END"):
                depth -= 1
            self.at += 1

    def until(self, *words: str) -> Cursor:
        """The part up to one of the words, outside of parentheses, or to the end."""
        start = self.at
        self.skip_to(lambda: any(self.sees(word) for word in words))
        return Cursor(self.text, self.tokens, start, self.at)

    def parts(self) -> Iterator[Cursor]:
        """The parts between commas."""
        while self.at < self.end:
            yield self.until(",")
            if self.at < self.end:
                self.need(",")

    def rest(self) -> Cursor:
        found = Cursor(self.text, self.tokens, self.at, self.end)
        self.at = self.end
        return found

    def finish(self) -> None:
        if self.token is not None:
            raise self.refused("nothing more is expected")

    @property
    def source(self) -> str:
        """The text from here to the end."""
        if self.at >= self.end:
            return ""
        return self.text[self.tokens[self.at].start : self.tokens[self.end - 1].end]
