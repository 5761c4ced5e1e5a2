"""Tokens of a statement. Parts that are passed on (queries, expressions, columns) keep their text, cut out between
tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hudi_py.errors import ConfigError
from hudi_py.expressions import lexemes, text_value

_OPENING, _CLOSING = ("(", "["), (")", "]")
_BEFORE_OPERANDS = frozenset(
    (
        *("ALL", "AND", "ANY", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "ESCAPE", "EXISTS", "FROM"),
        *("HAVING", "ILIKE", "IN", "INTERVAL", "IS", "LIKE", "NOT", "ON", "OR", "REGEXP", "RLIKE", "SELECT", "SET"),
        *("SOME", "THEN", "VALUES", "WHEN", "WHERE", "XOR"),
    )
)
"""Words after which an operand follows."""
_AFTER_OPERANDS = frozenset(
    (
        *(
            "AND",
            "AS",
            "ASC",
            "BETWEEN",
            "DESC",
            "DIV",
            "ELSE",
            "END",
            "ESCAPE",
            "FROM",
            "GROUP",
            "HAVING",
            "ILIKE",
            "IN",
        ),
        *("IS", "LIKE", "LIMIT", "NULLS", "OR", "ORDER", "REGEXP", "RLIKE", "THEN", "UNION", "USING", "VALUES", "WHEN"),
        *("WHERE", "XOR"),
    )
)
"""Words that follow an operand, and do not begin one."""


@dataclass(frozen=True, slots=True)
class SqlToken:
    text: str
    """For quoted names and constants, the text between the quotes."""
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
    """Returns the first word of a statement, in upper case; empty if there is none."""
    first = next((lexeme for lexeme in lexemes(text) if lexeme.kind != "comment"), None)
    word = "" if first is None or first.kind != "word" else text[first.start : first.end].upper()
    return word if word.isalpha() else ""


def tokens_of(text: str) -> list[SqlToken] | None:
    """Splits a statement into tokens, without a trailing semicolon. Returns None if it contains something that is not
    SQL, so that Spark reports it."""
    made: list[SqlToken] = []
    for lexeme in lexemes(text):
        piece = text[lexeme.start : lexeme.end]
        if lexeme.kind in ("text", "raw"):
            made.append(SqlToken(text_value(piece), "text", lexeme.start, lexeme.end))
        elif lexeme.kind == "name":
            made.append(SqlToken(piece[1:-1].replace("``", "`"), "name", lexeme.start, lexeme.end))
        elif lexeme.kind == "other" and piece not in "{}":  # braces are for values of keyword arguments
            return None
        elif lexeme.kind != "comment":
            made.append(SqlToken(piece, "number" if lexeme.kind == "number" else "word", lexeme.start, lexeme.end))
    while made and made[-1].is_word(";"):
        made.pop()
    return _with_columns(_joined(made))


def _joined(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """Joins `hudi-py` to one name, also without backticks."""
    made: list[SqlToken] = []
    for token in tokens:
        if (
            token.is_word("PY")
            and len(made) > 1
            and made[-1].text == "-"
            and made[-2].is_word("HUDI")
            and token.start - 1 == made[-1].start == made[-2].end
        ):
            made[-2:] = [SqlToken("hudi-py", "name", made[-2].start, token.end)]
        else:
            made.append(token)
    return made


def _with_columns(tokens: list[SqlToken]) -> list[SqlToken]:
    """Turns CASE and END into names if they are columns, not parts of an expression CASE ... END."""
    if not any(token.is_word("CASE", "END") for token in tokens):
        return tokens
    columns: set[int] = set()
    while True:
        parts = _parts_of_cases(tokens, columns)
        # of `CASE case WHEN a THEN b END` the second one has taken the WHEN and the END of the first
        robbed = (at for at in range(len(tokens) - 1) if at not in parts and _is_certain(tokens, at))
        thief = next((next((part for part in sorted(parts) if part > at), None) for at in robbed), None)
        if thief is None or thief in columns or not tokens[thief].is_word("CASE"):
            break
        columns.add(thief)
    return [
        replace(token, kind="name") if token.is_word("CASE", "END") and at not in parts else token
        for at, token in enumerate(tokens)
    ]


def _parts_of_cases(tokens: Sequence[SqlToken], columns: Collection[int]) -> set[int]:
    """Returns the numbers of the CASE and END that belong together. `columns`: those that are column names."""
    cases = _Cases()
    for at, token in enumerate(tokens):
        if token.kind != "word" or (at and tokens[at - 1].text == "."):
            continue
        word = token.text.upper()
        is_column = at > 0 and tokens[at - 1].is_word("CASE") and at - 1 not in cases.begun
        after_operand = is_column or _ends_operand(tokens, at - 1)
        if word in _OPENING:
            cases.open.append(_Open(at))
        elif word == "CASE":
            if at not in columns and not after_operand and _may_begin_case(tokens, at):
                cases.begin(at)
        elif word in (",", ";", *_CLOSING):
            cases.close(parenthesis=word in _CLOSING)
        elif word == "THEN" or (word == "WHEN" and not _is_clause(tokens, at)):
            cases.go_on(word)
        elif word == "END" and after_operand:
            cases.end(at)
    return cases.parts


@dataclass(slots=True)
class _Open:
    """An unclosed parenthesis, or a possible expression CASE."""

    at: int
    is_case: bool = False
    stage: int = 0
    """1 after WHEN, 2 after THEN."""


@dataclass(slots=True)
class _Cases:
    """The expressions CASE in tokens that were seen so far."""

    open: list[_Open] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    """The numbers of each CASE that may begin an expression."""
    parts: set[int] = field(default_factory=set)
    """The numbers of the CASE and END that belong together."""

    def begin(self, at: int) -> None:
        self.open.append(_Open(at, is_case=True))
        self.begun.add(at)

    def close(self, *, parenthesis: bool) -> None:
        """Take a separator or a closing parenthesis."""
        while self.open and self.open[-1].is_case:  # no part of it can follow
            self.open.pop()
        if parenthesis and self.open:
            self.open.pop()

    def go_on(self, word: str) -> None:
        """Take WHEN or THEN."""
        if not self.open:
            return
        if word == "WHEN":
            self.open[-1].stage = max(self.open[-1].stage, 1)
        elif self.open[-1].stage == 1:
            self.open[-1].stage = 2

    def end(self, at: int) -> None:
        while self.open and self.open[-1].is_case and self.open[-1].stage < 2:
            self.open.pop()
        if self.open and self.open[-1].is_case:
            self.parts |= {self.open.pop().at, at}


def _ends_operand(tokens: Sequence[SqlToken], at: int) -> bool:
    """Returns whether an operand may end with a token, so that an operator or the end of an expression follows."""
    if at < 0:
        return False
    token = tokens[at]
    if token.kind != "word" or (at and tokens[at - 1].text == "."):
        return True
    return token.text in _CLOSING or (token.is_name and token.text.upper() not in _BEFORE_OPERANDS)


def _may_begin_case(tokens: Sequence[SqlToken], at: int) -> bool:
    """Returns whether an operand, or WHEN, may follow CASE."""
    return at + 1 < len(tokens) and (
        _is_certain(tokens, at) or tokens[at + 1].is_word("WHEN", "(", "-", "+", "~", "?", ":")
    )


def _is_certain(tokens: Sequence[SqlToken], at: int) -> bool:
    """Returns whether a token is CASE followed by an operand, so that it cannot be a column."""
    token, after = tokens[at], tokens[at + 1]
    if not token.is_word("CASE") or _ends_operand(tokens, at - 1) or (at and tokens[at - 1].text == "."):
        return False
    return after.kind != "word" or (after.is_name and after.text.upper() not in _AFTER_OPERANDS)


def _is_clause(tokens: Sequence[SqlToken], at: int) -> bool:
    """Returns whether WHEN begins a clause of MERGE."""
    after = tokens[at + 1 : at + 3]
    return bool(after) and (
        after[0].is_word("MATCHED") or (len(after) > 1 and after[0].is_word("NOT") and after[1].is_word("MATCHED"))
    )


@dataclass(slots=True)
class Cursor:
    """Reads a statement from left to right."""

    text: str
    tokens: Sequence[SqlToken]
    at: int = 0
    end: int = field(default=-1)
    """One beyond the last token."""

    def __post_init__(self) -> None:
        if self.end < 0:
            self.end = len(self.tokens)

    @property
    def token(self) -> SqlToken | None:
        return self.tokens[self.at] if self.at < self.end else None

    def sees(self, *words: str) -> bool:
        """Returns whether these words follow."""
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
            raise self.refused(f"expected {' '.join(words)}")

    def refused(self, why: str) -> ConfigError:
        token = self.token
        actual = "its end" if token is None else repr(self.text[token.start : token.start + 40])
        return ConfigError(f"Cannot run {self.text[:200]!r} on a Hudi table: {why}; found {actual}")

    def name(self) -> str:
        token = self.token
        if token is None or not token.is_name:
            raise self.refused("expected a name")
        self.at += 1
        return token.text

    def names(self) -> tuple[str, ...]:
        """Takes the parts of a dotted name."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def constant(self) -> str:
        token = self.token
        if token is None or token.kind not in ("text", "number"):
            raise self.refused("expected a constant")
        self.at += 1
        return token.text

    def group(self) -> Cursor:
        """Returns the tokens between the next parenthesis and its counterpart."""
        self.need("(")
        start = self.at
        self.skip_to(lambda: self.sees(")"))
        self.need(")")
        return Cursor(self.text, self.tokens, start, self.at - 1)

    def skip_to(self, is_end: Callable[[], bool]) -> None:
        """Skips to where `is_end()` is true, outside of parentheses and CASE that open on the way, or to the end."""
        depth = 0
        while self.at < self.end:
            if depth == 0 and is_end():
                return
            token = self.tokens[self.at]
            if token.is_word(*_OPENING, "CASE"):
                depth += 1
            elif token.is_word(*_CLOSING, "END"):
                depth -= 1
            self.at += 1

    def until(self, *words: str) -> Cursor:
        """Returns the part up to one of the words, outside of parentheses, or to the end."""
        start = self.at
        self.skip_to(lambda: any(self.sees(word) for word in words))
        return Cursor(self.text, self.tokens, start, self.at)

    def parts(self) -> Iterator[Cursor]:
        """Yields the parts between commas."""
        while self.at < self.end:
            yield self.until(",")
            if self.at < self.end:
                self.need(",")

    def rest(self) -> Cursor:
        cursor = Cursor(self.text, self.tokens, self.at, self.end)
        self.at = self.end
        return cursor

    def finish(self) -> None:
        if self.token is not None:
            raise self.refused("expected nothing more")

    @property
    def source(self) -> str:
        """Returns the text from here to the end."""
        if self.at >= self.end:
            return ""
        return self.text[self.tokens[self.at].start : self.tokens[self.end - 1].end]


def value_of(part: Cursor) -> str:
    """Returns the text of a column's value; DEFAULT by itself is NULL, since no other default is stored."""
    alone = part.end == part.at + 1 and part.token is not None and part.token.is_word("DEFAULT")
    return "NULL" if alone else part.source


def properties(cursor: Cursor) -> dict[str, str]:
    """Parses keys and values of TBLPROPERTIES or OPTIONS."""
    given = {}
    for part in cursor.parts():
        key = property_key(part)
        part.take("=")
        value = part.token
        if value is None:
            raise part.refused("expected a value")
        part.at += 1
        given[key] = value.text
        part.finish()
    return given


def property_key(part: Cursor) -> str:
    """Parses the key of a property: a constant, or a dotted name."""
    return part.constant() if part.token is not None and part.token.kind == "text" else ".".join(part.names())
