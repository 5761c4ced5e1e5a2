"""Numbers of buckets that differ by partition: rules, and the files that keep them with a table.

Sources: `RegexRuleEngine`, `PartitionBucketIndexCalculator`, `PartitionBucketIndexHashingConfig`, Apache Hudi 1.2.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hudi_py.errors import ConfigError, CorruptFileError
from hudi_py.model.limits import parse_json
from hudi_py.model.words import visible

RULE = "regex"
"""The only kind of rule."""
_MAX_BUCKETS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BucketRules:
    """How many buckets each partition has. Pickles."""

    expressions: str
    """`pattern,buckets;pattern,buckets`: the first pattern found in the path of a partition counts."""
    default: int
    """Buckets of a partition in which no pattern is found."""

    def parsed(self) -> list[tuple[str, int]]:
        """The patterns and their numbers of buckets, in their order.

        Raises:
            ConfigError: the expressions have another form.
        """
        return [self._rule(text) for text in _split(self.expressions, ";")]

    def _rule(self, text: str) -> tuple[str, int]:
        parts = [part.strip() for part in _split(text.strip(), ",")]
        if len(parts) != 2 or not parts[1].isascii() or not parts[1].isdigit() or not 0 < int(parts[1]) <= _MAX_BUCKETS:
            raise ConfigError(
                f"The bucket rule '{visible(text)}' of '{visible(self.expressions)}' is not valid; expected "
                "'pattern,buckets', with a regular expression without commas and semicolons, and a number of at least 1"
            )
        return parts[0], int(parts[1])

    def encode(self, instant: str) -> bytes:
        """The content of the `.hashing_config` file of the commit that made these rules, as Java writes it."""
        fields = {"expressions": self.expressions, "defaultBucketNumber": self.default}
        text = json.dumps(
            {**fields, "rule": RULE, "version": 1, "instant": instant},
            indent=2,
            separators=(",", " : "),
            ensure_ascii=False,
        )
        return text.encode()

    @classmethod
    def decode(cls, data: bytes, context: str) -> BucketRules:
        """From the content of a `.hashing_config` file.

        Raises:
            CorruptFileError: the content is something else; names `context`.
            ConfigError: its rules are of another kind.
        """
        try:
            found = parse_json(data)
            rules, rule = cls(str(found["expressions"]), int(found["defaultBucketNumber"])), str(found["rule"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"Cannot read {context}: no rules for numbers of buckets ({error})") from error
        if rule.lower() != RULE:
            raise ConfigError(f"Cannot use the bucket rules of {context}: their kind is '{rule}'; supported: {RULE}")
        return rules


def _split(text: str, by: str) -> list[str]:
    """As Java's `String.split`, which leaves out empty parts at the end."""
    parts = text.split(by)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
