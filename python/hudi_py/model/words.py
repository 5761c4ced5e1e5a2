"""Counts and sizes in words, for people."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as `1 file` or `1,200 files`; `noun` is singular and forms its plural with s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def show_bytes(size: int) -> str:
    """A number of bytes, in decimal units."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
