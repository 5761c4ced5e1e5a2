"""Deterministic damage: one input for each target and number."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Final

_BYTES: Final = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_INTEGERS: Final = (0, 1, -1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**31 - 1, -(2**31), 10**6)
_LONGS: Final = (0, -1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
_VARINTS: Final = (
    b"\x00",
    b"\x01",
    b"\x80\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 11,
)


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to six changes, most often one or two."""
    data = bytearray(rng.choice(seeds))
    for _ in range(min(6, 1 + int(rng.expovariate(0.8)))):
        if not data:
            break
        _change(rng, data, seeds)
    return bytes(data)


def _change(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    size = len(data)
    at = rng.randrange(size)
    kind = rng.randrange(12)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at] = rng.randrange(256)
    elif kind == 2:
        data[at] = rng.choice(_BYTES)
    elif kind == 3:
        form = rng.choice((">i", "<i"))
        data[at : at + 4] = struct.pack(form, rng.choice(_INTEGERS))
    elif kind == 4:
        form = rng.choice((">q", "<q"))
        data[at : at + 8] = struct.pack(form, rng.choice(_LONGS))
    elif kind == 5:
        piece = rng.choice(_VARINTS)
        data[at : at + rng.choice((1, len(piece)))] = piece
    elif kind == 6:
        del data[at : at + 1 + int(rng.expovariate(0.1))]
    elif kind == 7:
        data[at:at] = rng.randbytes(1 + int(rng.expovariate(0.2)))
    elif kind == 8:
        del data[at:]
    elif kind == 9:
        start = rng.randrange(size)
        data[at:at] = data[start : start + 1 + int(rng.expovariate(0.02))]
    elif kind == 10:
        other = rng.choice(seeds)
        start = rng.randrange(len(other)) if other else 0
        piece = other[start : start + 1 + int(rng.expovariate(0.02))]
        data[at : at + rng.choice((0, len(piece)))] = piece
    else:
        # a digit of a number in text, a letter of a name
        data[at] = rng.choice(b'0123456789-+.eE{}[]":,=\\/ \tnull')
