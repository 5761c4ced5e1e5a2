"""Formats counts, sizes, durations and untrusted text for people."""

from __future__ import annotations

import re
from typing import Final

# Control characters and those that change text direction could forge the text around them
_ESCAPED: Final = {
    number: repr(chr(number))[1:-1]
    for number in (*range(32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
_STEERING: Final = re.compile(
    "[" + "".join(map(chr, (number for number in _ESCAPED if number >= 127))) + "\ud800-\udfff]"
)


class Spoken:
    """A result whose repr is readable text, for consoles and notebooks. Subclasses are dataclasses with `repr=False`,
    and define `_text`."""

    __slots__ = ()

    def _text(self) -> str:
        """Renders one or more lines, which may contain names from the table."""
        raise TypeError(f"{type(self).__name__} has no text")

    def __str__(self) -> str:
        return visible_lines(self._text())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


def counted(count: int, noun: str) -> str:
    """Formats a count with its noun, such as `1 file` or `1,200 files`; `noun` is singular and forms its plural with
    s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def show_bytes(size: int) -> str:
    """Formats a number of bytes in decimal units."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def show_duration(milliseconds: int) -> str:
    """Formats a duration in its two largest units, such as `340 ms`, `2.4 s` or `3 h 5 min`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h" if hours else f"{days:,} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def readable(instant: str | None) -> str:
    """Formats an instant as date and time, to the second."""
    if not instant or len(instant) < 14 or instant.startswith("0000"):
        return instant or ""
    date, time = instant[:8], instant[8:14]
    return f"{date[:4]}-{date[4:6]}-{date[6:]} {time[:2]}:{time[2:4]}:{time[4:]}"


def ago(milliseconds: int) -> str:
    """Formats the time since something happened in its largest unit."""
    seconds = max(milliseconds // 1000, 0)
    for size, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{counted(seconds // size, noun)} ago"
    return "less than a minute ago"


def visible(text: str) -> str:
    """Renders any text on one line: control characters, characters that change text direction, and undecodable bytes
    become escapes."""
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace").decode("utf-8")


def visible_lines(text: str) -> str:
    """Renders text of several lines, each by `visible`: names from a table must not control a terminal."""
    return text if text.isascii() and text.isprintable() else "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    """Renders JSON with JSON escapes for the characters that `visible` escapes; they occur only inside strings."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def capitalised(text: str) -> str:
    """Returns a text with its first letter as a capital, and the rest as it is."""
    return text[:1].upper() + text[1:]
