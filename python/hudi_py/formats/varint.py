"""Variable-length numbers of protobuf and Avro."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A non-negative number, 7 bits per byte, lowest first. For Avro's zigzag form pass twice the number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
