"""Generates the page that lists every option: `python -m hudi_py.config.docs > docs/options.md`."""

from __future__ import annotations

import sys
from typing import Any

from hudi_py.config import harmless, refused
from hudi_py.config.option import Option, Policy
from hudi_py.config.options import SECRET_PREFIX, SECTIONS, STORAGE_PREFIX

_HEAD = f"""# Options

<!-- Written by `python -m hudi_py.config.docs`; change the options in python/hudi_py/config/ instead. -->

Keys and defaults are those of Apache Hudi 1.2.0; keys are case-insensitive. An unknown key is refused, and the error
suggests the nearest known one. A write refuses an option that contradicts the table's own properties.

- In Python, options are a dictionary, `options={{"key": "value"}}`; in Spark `.option("key", "value")`; in SQL
  `SET key = value`; on the command line `-o key=value`. `hudi-py options WORD` shows the options of this page that have
  to do with a word.
- Options that a call does not set are read from `hudi-defaults.conf` in the folder that the environment variable
  `HUDI_CONF_DIR` names, and from `/etc/hudi/conf`.
- `{STORAGE_PREFIX}<name>` sets the storage option `<name>`. For object stores these are the options of the package
  obstore, such as credentials, `region`, `endpoint`, `allow_http` and `timeout`. The values are never shown. Spark
  shows the options of a write unless their keys hold `secret`: `{SECRET_PREFIX}<name>` means the same.
- Keys that begin with `hoodie.py.`, and `columns` and `filter`, are hudi-py's own.
"""


def options_page() -> str:
    """Renders the page as Markdown."""
    parts = [_HEAD]
    for title, options in SECTIONS.items():
        parts += [f"## {title}\n", *(_honoured(option) for option in options if not option.internal)]
    parts += [
        "## Refused\n",
        "These options ask for features that are not built. The values in the middle column do not and are accepted.\n",
        "| option | accepted | why other values are refused |",
        "|---|---|---|",
        *(_refused(option) for option in sorted(refused.OPTIONS, key=lambda option: option.key)),
        "",
        "## Without effect\n",
        "These options are accepted and change nothing.\n",
        "| option | why it has no effect |",
        "|---|---|",
        *(f"| {_keys(option)} | {_cell(option.help)} |" for option in sorted(harmless.OPTIONS, key=lambda o: o.key)),
        *(
            f"| `{family.prefix}*` | {_cell(family.help)} |"
            for family in sorted(harmless.PREFIXES, key=lambda f: f.prefix)
        ),
        "",
    ]
    return "\n".join(parts)


def _honoured(option: Option[Any]) -> str:
    lines = [f"### `{option.key}`\n", f"{option.help}\n", f"- Default: {default_of(option)}"]
    if option.choices:
        lines.append("- Values: " + ", ".join(f"`{value}`" for value in option.choices))
    else:
        lines.append(f"- Value: {option.kind}")
    if option.aliases:
        lines.append("- Also: " + ", ".join(f"`{alias}`" for alias in option.aliases))
    lines.append(f"- Since: {option.since}")
    if option.shown:
        lines.append(f"- Example: `{option.key}={option.shown}`")
    return "\n".join([*lines, ""])


def _refused(option: Option[Any]) -> str:
    taken = ", ".join(f"`{value}`" for value in option.accepts if value) or "none"
    return f"| {_keys(option)} | {taken} | {_cell(option.why)} |"


def _keys(option: Option[Any]) -> str:
    keys = f"`{option.key}`"
    return keys + (" (also " + ", ".join(f"`{alias}`" for alias in option.aliases) + ")" if option.aliases else "")


def reference(option: Option[Any]) -> dict[str, Any]:
    """Describes an option for programs."""
    meaning = option.why if option.policy is Policy.REFUSED else option.help
    found = {"option": option.key, "treated": option.policy.value, "meaning": meaning}
    if option.policy is Policy.REFUSED:
        return {**found, "accepted": [value for value in option.accepts if value], "also": list(option.aliases)}
    if option.policy is Policy.HARMLESS:
        return {**found, "also": list(option.aliases)}
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    values: list[str] | str = list(option.choices) or option.kind
    example = f"{option.key}={option.shown}" if option.shown else None
    more = {"default": default, "values": values, "also": list(option.aliases), "since": option.since}
    return {**found, **more, "example": example}


def default_of(option: Option[Any]) -> str:
    """Formats an option's default as Markdown."""
    value = option.default
    if value is None or value in ((), ""):
        return "not set"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(options_page())
