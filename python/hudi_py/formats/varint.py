"""Numbers of variable length, as protobuf and Avro write them."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A number which is not negative, seven bits a byte, the lowest first. Avro's zigzag form is that of its double."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
