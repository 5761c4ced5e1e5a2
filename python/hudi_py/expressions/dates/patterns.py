"""Date patterns in Joda-Time's letters, which Apache Hudi's key generators use (`DateTimeFormat`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudi_py.errors import ConfigError

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'?|[^A-Za-z']+")


@dataclass(frozen=True, slots=True)
class JodaToken:
    """A part of a pattern: a repeated letter, or text."""

    letter: str
    """The letter; empty for text."""
    count: int
    text: str = ""

    @property
    def is_name(self) -> bool:
        """Returns whether the token names a month or a weekday."""
        return self.letter == "E" or (self.letter == "M" and self.count >= 3)

    @property
    def is_number(self) -> bool:
        return self.letter not in ("", "a", "Z") and not self.is_name


def tokens(pattern: str, letters: str, key: str) -> tuple[JodaToken, ...]:
    """Splits a pattern into tokens. Text is in single quotes, or has no letters; two quotes mean one.

    Args:
        letters: the supported ones.
        key: the option that holds the pattern, for errors.

    Raises:
        ConfigError: the pattern is empty, or has other letters.
    """
    result = []
    for part in _TOKEN.finditer(pattern):
        text = part[0]
        if part[1]:
            result.append(JodaToken(part[1], len(text)))
            continue
        if text[0] == "'" and text != "''":
            text = text[1:].removesuffix("'")
        result.append(JodaToken("", 0, text.replace("''", "'")))
    if not result:
        raise ConfigError(f"Option {key} is empty; expected a date pattern such as yyyy-MM-dd")
    for token in result:
        if token.letter and (token.letter not in letters or (token.letter == "Z" and token.count > 2)):
            raise ConfigError(
                f"Option {key} = '{pattern}' has {token.letter * token.count}, which is not supported; supported: "
                f"{' '.join(letters)} with Joda-Time's meanings, Z once or twice: change the pattern, or put text in "
                "single quotes"
            )
    return tuple(result)
