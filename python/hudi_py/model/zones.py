"""The time zone of this process."""

from __future__ import annotations

import os
from datetime import datetime, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_ZONE_FILES = "/zoneinfo/"


def local_zone() -> tzinfo:
    """Returns this process's current zone, from `TZ` or `/etc/localtime`; keep the value if it must not change.

    A zone without a name in the time zone database becomes its current fixed offset.
    """
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        target = os.path.realpath("/etc/localtime")
        name = target.partition(_ZONE_FILES)[2]
    if name.startswith("/"):
        name = name.partition(_ZONE_FILES)[2]
    for key in (name, name.removeprefix("posix/")):
        if key in ("UTC", "Etc/UTC"):
            return timezone.utc
        try:
            return ZoneInfo(key)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return datetime.now().astimezone().tzinfo or timezone.utc


def local_zone_name() -> str:
    """Returns the name of `local_zone` in Arrow: one of the time zone database, or `+hh:mm`."""
    zone = local_zone()
    if zone is timezone.utc:
        return "UTC"
    key = getattr(zone, "key", None)
    if isinstance(key, str):
        return key
    offset = datetime.now(zone).strftime("%z")
    return f"{offset[:3]}:{offset[3:5]}"
