"""`hudi-defaults.conf`: defaults for options that a call does not set (`DFSPropertiesConfiguration`, 1.2.0)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hudi_py.errors import ConfigError

FILE_NAME = "hudi-defaults.conf"
FOLDER_VARIABLE = "HUDI_CONF_DIR"
SYSTEM_FOLDER = Path("/etc/hudi/conf")


def load_defaults() -> dict[str, str]:
    """The options in the folder that `HUDI_CONF_DIR` names, and those in `/etc/hudi/conf` that it does not set.

    A line is `key=value` or `key value`; `#` starts a comment line; `include=<file>` includes another file, relative to
    the including one.

    Raises:
        ConfigError: `HUDI_CONF_DIR` is set and has no readable file of this name, or files include each other.
    """
    result: dict[str, str] = {}
    system = SYSTEM_FOLDER / FILE_NAME
    if system.is_file():
        _read(system, result, ())
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if folder:
        path = _local(folder) / FILE_NAME
        if path != system:
            _read(path, result, ())
    return result


def _local(folder: str) -> Path:
    parts = urlsplit(folder)
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else folder)
    raise ConfigError(f"{FOLDER_VARIABLE} = '{folder}' is not supported: expected a folder on the local file system")


def _read(path: Path, into: dict[str, str], including: tuple[Path, ...]) -> None:
    if path in including:
        raise ConfigError(f"Options file {path} includes itself, through {' -> '.join(map(str, including))}")
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        source = f"named by {including[-1]}" if including else f"named by {FOLDER_VARIABLE}"
        raise ConfigError(f"Options file {path}, {source}, cannot be read: {error}") from error
    for line in lines:
        if not line or line.startswith("#") or not ("=" in line or re.search(r"\s", line)):
            continue
        collapsed = re.sub(r"\s+", " ", line)
        key, _, value = collapsed.partition("=" if "=" in collapsed else " ")
        key, value = key.strip(), value.strip()
        if not key:
            continue
        if line.startswith(("include=", "include =")):
            _read(path.parent / value, into, (*including, path))
        else:
            into[key] = value
