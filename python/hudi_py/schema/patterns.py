"""Matches patterns given by users, in linear time.

Python's `re` and Java's `Pattern` backtrack, which can take exponential time even for a small pattern. Arrow's matcher
(RE2) does not, but supports neither back-references nor look-around.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.errors import ConfigError


def check_regex(regex: str, option: str) -> None:
    """Raises ConfigError, naming `option`, if a text is no regular expression, or has back-references or
    look-around."""
    matching(regex, [""], option)


def matching(regex: str, texts: Sequence[str], option: str, *, whole: bool = False) -> list[str]:
    """Returns the texts that contain a match of a regular expression; with `whole`, those that match completely.

    Raises:
        ConfigError: as `check_regex`.
    """
    given = pa.array(texts, pa.string())
    try:
        pc.match_substring_regex([""], regex)  # on its own, as it could close the group added below
        kept = pc.match_substring_regex(given, rf"\A(?:{regex})\z" if whole else regex)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ConfigError(
            f"Option {option} = '{regex}' is not valid: {reason}; expected a regular expression without "
            "back-references and look-around"
        ) from None
    paths: list[str] = given.filter(kept).to_pylist()
    return paths


def escaped(text: str) -> str:
    """Escapes a text for a regular expression."""
    return "".join(char if char.isalnum() or char in "_ " else f"\\x{{{ord(char):x}}}" for char in text)


def matching_paths(pattern: str, paths: Sequence[str], option: str) -> list[str]:
    """Returns the paths that match a glob folder by folder, as in Hadoop's `FileSystem.globStatus`: wildcards do not
    span folders, and the base folder (an empty path) never matches.

    Raises:
        ConfigError: as `glob_regex`.
    """
    named = [path for path in paths if path or not pattern]
    return matching(glob_regex(pattern, option, one_folder=True), named, option, whole=True)


def glob_regex(pattern: str, option: str, *, one_folder: bool = False) -> str:
    """Converts a glob to a regular expression (`GlobPattern` of Hadoop): `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, also
    nested, and a backslash before a literal character.

    Args:
        one_folder: whether wildcards leave out slashes.

    Raises:
        ConfigError: a brace or bracket is not closed, or nothing follows a backslash.
    """
    other, no_slash = ("[^/]", "/") if one_folder else (".", "")
    result: list[str] = []
    opened, position = 0, 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            result.append(f"{other}*")
        elif char == "?":
            result.append(other)
        elif char == "{":
            opened += 1
            result.append("(?:")
        elif char == "}" and opened:
            opened -= 1
            result.append(")")
        elif char == "," and opened:
            result.append("|")
        elif char == "[":
            end = pattern.find("]", position)
            if end <= position:
                raise _no_glob(pattern, option, "a bracket is not closed, or empty")
            inside = pattern[position:end]
            negated = inside[0] in "!^"
            start = f"^{no_slash}" if negated else ""
            result.append(f"[{start}{_of_class(inside[negated:])}]")
            position = end + 1
        elif char == "\\":
            if position == len(pattern):
                raise _no_glob(pattern, option, "nothing follows the backslash at its end")
            result.append(re.escape(pattern[position]))
            position += 1
        else:
            result.append(re.escape(char))
    if opened:
        raise _no_glob(pattern, option, "a brace is not closed")
    return "(?s)" + "".join(result)


def _of_class(text: str) -> str:
    return "".join("\\" + char if char in "\\[]^&~" else char for char in text)


def _no_glob(pattern: str, option: str, reason: str) -> ConfigError:
    return ConfigError(f"Option {option} = '{pattern}' is not valid: {reason}; expected a glob such as `2026/*/part-*`")
