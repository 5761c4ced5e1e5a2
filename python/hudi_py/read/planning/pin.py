"""Encodes a plan's state and file slices as a short string, which a later read takes as `hoodie.py.read.pin`.

It holds a digest of each slice, since the slices themselves could take many megabytes. A later plan of the same state
finds the slices by digest and detects missing ones.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from hudi_py.config import Options
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, HistoryCleanedError
from hudi_py.read.split import Split
from hudi_py.storage import open_storage
from hudi_py.timeline.state import TableState, load_state
from hudi_py.timeline.timeline import Pin

_FORMAT = 2
_DIGEST_BYTES = 8
_MAX_TEXT = 256 * 1024 * 1024
"""Maximum size of a decompressed pin; enough for a table with ten million slices."""


@dataclass(frozen=True, slots=True)
class PlanPin:
    """The state of the timeline and the file slices of a plan."""

    state: Pin
    slices: tuple[str, ...]
    """Digests of its splits, in order."""
    without_base: int = 0
    """The number of splits, from the first, whose base files another reader reads."""

    @classmethod
    def of(cls, state: Pin, splits: Iterable[Split], *, without_base: int = 0) -> PlanPin:
        return cls(state, tuple(_split_digest(split) for split in splits), without_base)

    def encode(self) -> str:
        """Encodes the pin as text. It holds no secrets and is the same in every process."""
        content = {
            "format": _FORMAT,
            "time": self.state.time,
            "pending": [list(pair) for pair in self.state.pending],
            "slices": "".join(self.slices),
            "without_base": self.without_base,
        }
        return base64.urlsafe_b64encode(zlib.compress(json.dumps(content).encode())).decode()

    @classmethod
    def decode(cls, text: str, key: str = read_config.PIN.key) -> PlanPin:
        """Decodes the result of `encode`. `key`: the option that has it.

        Raises:
            ConfigError: the text is not a pin.
        """
        try:
            data = zlib.decompressobj().decompress(base64.urlsafe_b64decode(text.encode()), _MAX_TEXT)
            content = json.loads(data)
            if content["format"] != _FORMAT:
                raise ValueError
            state = Pin(str(content["time"]), tuple((str(time), str(action)) for time, action in content["pending"]))
            digests, without_base = str(content["slices"]), int(content["without_base"])
        except (ValueError, KeyError, TypeError, binascii.Error, zlib.error, RecursionError) as error:
            raise ConfigError(
                f"Option {key} = '{text[:40]}...' is not valid: expected a value of the column `pin` of the view "
                "`plan`, or of Scan.pin"
            ) from error
        step = 2 * _DIGEST_BYTES
        return cls(state, tuple(digests[start : start + step] for start in range(0, len(digests), step)), without_base)

    @property
    def label(self) -> str:
        """Formats the state of the timeline as letters, digits and underscores, in the order of states."""
        pending = f"_{json.dumps(self.state.pending).encode().hex()}" if self.state.pending else ""
        return f"{self.state.time or '0'}{pending}"

    @classmethod
    def of_label(cls, label: str) -> PlanPin:
        """Returns the pin of the state that `label` names, without slices."""
        time, _, pending = label.partition("_")
        pairs = json.loads(bytes.fromhex(pending)) if pending else ()
        return cls(Pin("" if time == "0" else time, tuple((str(first), str(second)) for first, second in pairs)), ())

    def choose(self, splits: Sequence[Split], uri: str) -> list[Split]:
        """Selects the pinned splits, in the order of the pin.

        Raises:
            HistoryCleanedError: one of them was cleaned.
        """
        by_digest = {_split_digest(split): split for split in splits}
        missing = [digest for digest in self.slices if digest not in by_digest]
        if missing:
            raise HistoryCleanedError(
                f"Cannot read the pinned state of {uri}: {len(missing)} of its {len(self.slices)} file slices were "
                "cleaned since it was pinned; re-create the DataFrame"
            )
        return [
            replace(by_digest[digest], without_base=index < self.without_base)
            for index, digest in enumerate(self.slices)
        ]


def load_pinned(path: str, options: Options) -> tuple[TableState, PlanPin | None]:
    """Loads the table with its newest timeline, or with the timeline as of the pin in the options."""
    state = load_state(open_storage(path, options.for_storage()))
    text = options.get(read_config.PIN)
    if text is None:
        return state, None
    pin = PlanPin.decode(text)
    return state.at(state.timeline.at(pin.state)), pin


def _split_digest(split: Split) -> str:
    # row groups depend on the filter, which may differ from the pinned plan's
    text = json.dumps(_as_json(split, ("spec", "row_groups", "without_base", "known_values")))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _as_json(value: Any, skip: tuple[str, ...] = ()) -> Any:
    """Converts a value to JSON types, identically in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(_as_json(getattr(value, f.name)) for f in fields(value) if f.name not in skip)]
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_as_json(item) for item in value), key=repr)
    if isinstance(value, dict):
        return sorted(([str(key), _as_json(item)] for key, item in value.items()), key=repr)
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
