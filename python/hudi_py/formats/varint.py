"""Variable-length numbers of protobuf and Avro."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Encodes a non-negative number, 7 bits per byte, lowest first. For Avro's zigzag form pass twice the number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Reads the number at an offset, and returns it with the offset after it. Avro's zigzag form is twice a
    non-negative number.

    Raises:
        ValueError: the data ends within the number, or it has more than 64 bits.
    """
    value = shift = 0
    while offset < len(data) and shift < 64:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset
    raise ValueError(offset)
