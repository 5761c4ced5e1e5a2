"""Declaration of an option: its key, type, default, scope and policy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from hudi_py.errors import ConfigError

_FLAG = "true or false"

T_co = TypeVar("T_co", covariant=True)
N = TypeVar("N", int, float)


class Scope(str, Enum):
    """Where an option applies. Outside of its scope it is accepted without effect."""

    READ = "read"
    WRITE = "write"
    TABLE = "table"
    """A table property: stored when the table is created, compared with the stored value afterwards. Applies to
    writes."""
    LOCK = "lock"
    """Table locks. Applies to writes."""
    SERVICE = "service"
    """Table services: compaction, clustering, cleaning, archiving. Applies to writes."""
    BOTH = "read and write"

    def counts_in(self, other: Scope) -> bool:
        """Returns whether an option of this scope is checked when options are resolved for `other` (`READ` or
        `WRITE`)."""
        return self is Scope.BOTH or (self is Scope.READ) == (other is Scope.READ)


class Policy(str, Enum):
    """How an option is treated."""

    HONOURED = "honoured"
    HARMLESS = "harmless"
    """Accepted without effect: it tunes the Java implementation and never changes rows. If it would change files (`why`
    is set), values that do not match `accepts` cause a warning."""
    REFUSED = "refused"
    """Its behaviour is not implemented. Only values in `accepts`, which do not need it, are accepted."""


class Problems:
    """Collects the errors in the options of a call, to report them all at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collects the ConfigError that the block raises, or its parts if it names several problems."""
        try:
            yield
        except ConfigError as error:
            self._errors += [item for item in error.problems or (error,) if str(item) not in map(str, self._errors)]

    def check(self) -> None:
        """Raises one ConfigError for all collected problems, in order."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            item = "; ".join(f"({number}) {error}" for number, error in enumerate(self._errors, 1))
            several = ConfigError(f"{len(self._errors)} options are not valid: {item}", **self._errors[0].fields)
            several.problems = tuple(self._errors)
            raise several

    def __bool__(self) -> bool:
        return bool(self._errors)


@dataclass(frozen=True, slots=True)
class Option(Generic[T_co]):
    """One option, declared once."""

    key: str
    kind: str
    """The type as the documentation names it."""
    parse: Callable[[str], T_co] = field(repr=False, compare=False)
    """Converts text to a value. Raises ValueError, whose message says what was expected."""
    default: T_co
    help: str
    scope: Scope
    policy: Policy = Policy.HONOURED
    aliases: tuple[str, ...] = ()
    since: str = "0.1.0"
    """First release of hudi-py that knows it."""
    choices: tuple[str, ...] = ()
    why: str = ""
    """Refused options: the reason and what to do instead. Harmless options: the text of the warning."""
    accepts: tuple[str, ...] = ()
    """Patterns, in lower case, of values that are neither refused nor cause a warning."""
    not_built: Mapping[str, str] = field(default_factory=dict, compare=False)
    """For honoured choices: values of Apache Hudi that are refused, with the reason."""
    example: str = ""
    """A value for the documentation, if `shown` cannot derive one."""
    secret: bool = False
    """Whether the value is secret: it is kept with the storage options and never shown."""
    internal: bool = False
    """Whether `pyspark_hudi` sets it to talk to its own data source: users have no use for it."""

    @property
    def shown(self) -> str:
        """Returns an example value that differs from the default; empty for internal options."""
        if self.example:
            return self.example
        if self.choices:
            return next(value for value in self.choices if value != str(self.default) or len(self.choices) == 1)
        if isinstance(self.default, bool) or self.kind == _FLAG:
            return "false" if self.default else "true"
        return f"{2 * self.default}" if isinstance(self.default, (int, float)) else ""

    def asks_for_nothing(self, text: str) -> bool:
        """Returns whether a value matches `accepts`."""
        value = text.strip().lower()
        return any(fnmatchcase(value, pattern) for pattern in self.accepts)

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.aliases)

    def read(self, text: str, given_as: str | None = None) -> T_co:
        """Parses the text of a value.

        Raises:
            ConfigError: the value is not valid, or it is refused.
        """
        name = given_as or self.key
        shown = "(not shown)" if self.secret else f"'{text}'"
        reason = self.not_built.get(text.strip().upper())
        if reason is not None:
            raise ConfigError(f"Option {name} = {shown} is not supported: {reason}; supported: {self.expected}")
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(f"Option {name} = {shown} is not valid: expected {error}") from None

    @property
    def expected(self) -> str:
        return ", ".join(self.choices) if self.choices else self.kind


def option_text(value: object) -> str:
    """Formats a value as text that `Option.read` parses; empty for None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    return "" if value is None else str(value)


def declared(names: Mapping[str, object], *before: tuple[Option[Any], ...]) -> tuple[Option[Any], ...]:
    """Returns the options among a module's global names, in the order of declaration, except those in `before`."""
    options = (value for value in names.values() if isinstance(value, Option))
    return tuple(option for option in options if not any(option in section for section in before))


def text(key: str, help: str, scope: Scope, default: str, **more: Any) -> Option[str]:
    """Declares an option that holds text."""
    return Option(key, "text", _parse_text, default, help, scope, **more)


def optional_text(key: str, help: str, scope: Scope, **more: Any) -> Option[str | None]:
    """Declares an option that holds text; None if it is not set or blank."""
    return Option(key, "text", _optional_text, None, help, scope, **more)


def names(key: str, help: str, scope: Scope, **more: Any) -> Option[tuple[str, ...]]:
    """Declares an option that holds a comma-separated list."""
    return Option(key, "comma-separated list", _parse_names, (), help, scope, **more)


def pairs(key: str, help: str, scope: Scope, **more: Any) -> Option[tuple[tuple[str, str], ...]]:
    """Declares an option that holds comma-separated pairs `name=value`."""
    return Option(key, "comma-separated pairs name=value", _parse_pairs, (), help, scope, **more)


def flag(key: str, help: str, scope: Scope, default: bool, **more: Any) -> Option[bool]:
    """Declares an option that is `true` or `false`."""
    return Option(key, _FLAG, _parse_flag, default, help, scope, **more)


def integer(
    key: str, help: str, scope: Scope, default: int, *, minimum: int = 0, unit: str = "", **more: Any
) -> Option[int]:
    """Declares an option that holds a whole number of at least `minimum`."""
    kind = f"whole number{' of ' + unit if unit else ''}, at least {minimum}"
    return Option(key, kind, _bounded_parser(int, kind, minimum, math.inf), default, help, scope, **more)


def number(key: str, help: str, scope: Scope, default: float, *, low: float, high: float, **more: Any) -> Option[float]:
    """Declares an option that holds a number from `low` to `high`, both included."""
    kind = f"number from {low:g} to {high:g}"
    return Option(key, kind, _bounded_parser(float, kind, low, high), default, help, scope, **more)


def choice(key: str, help: str, scope: Scope, default: str, choices: tuple[str, ...], **more: Any) -> Option[str]:
    """Declares an option with a few values, in any case; the result has the spelling in `choices`."""
    return Option(key, "choice", _choice_parser(choices), default, help, scope, choices=choices, **more)


def optional_choice(key: str, help: str, scope: Scope, choices: tuple[str, ...], **more: Any) -> Option[str | None]:
    """Declares an option with a few values; None if it is not set."""
    return Option(key, "choice", _choice_parser(choices), None, help, scope, choices=choices, **more)


def harmless(key: str, help: str, scope: Scope, *aliases: str, unless: tuple[str, ...] | None = None) -> Option[str]:
    """Declares an option that is accepted without effect. Values that do not match `unless` cause a warning."""
    why = "" if unless is None else help
    policy = Policy.HARMLESS
    return Option(key, "text", _parse_text, "", help, scope, policy, aliases=aliases, why=why, accepts=unless or ())


def refused(key: str, why: str, scope: Scope, *aliases: str, accepts: tuple[str, ...] = ("", "false")) -> Option[str]:
    """Declares an option whose behaviour is not implemented; only values in `accepts` are accepted."""
    return Option(key, "text", _parse_text, "", "", scope, Policy.REFUSED, aliases=aliases, why=why, accepts=accepts)


def _parse_text(value: str) -> str:
    return value.strip()


def _optional_text(value: str) -> str | None:
    return value.strip() or None


def _parse_names(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _parse_pairs(value: str) -> tuple[tuple[str, str], ...]:
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    for name, equals, _ in pairs:
        if not equals:
            raise ValueError(f"pairs such as a=b, separated by commas; {name!r} has no value")
    return tuple((name.strip(), text.strip()) for name, _, text in pairs)


def _parse_flag(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(_FLAG)
    return lowered == "true"


def _bounded_parser(convert: Callable[[str], N], kind: str, low: float, high: float) -> Callable[[str], N]:
    def parse(value: str) -> N:
        try:
            result = convert(value.strip())
        except ValueError:
            raise ValueError(f"a {kind}") from None
        if not low <= result <= high:
            raise ValueError(f"a {kind}")
        return result

    return parse


def _choice_parser(choices: tuple[str, ...]) -> Callable[[str], str]:
    by_upper = {value.upper(): value for value in choices}

    def parse(value: str) -> str:
        matched = by_upper.get(value.strip().upper())
        if matched is None:
            near = difflib.get_close_matches(value.strip().upper(), by_upper, 1)
            raise ValueError("one of " + ", ".join(choices) + (f"; did you mean {by_upper[near[0]]}?" if near else ""))
        return matched

    return parse
