"""Generates the page that lists every option: `python -m hudi_py.config.docs > docs/options.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from hudi_py.config import (
    clustering,
    compaction,
    concurrency,
    harmless,
    incremental,
    indexes,
    interop,
    read,
    refused,
    services,
    table,
    write,
)
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

_COMMON: Final = {
    "A new table": (
        table.TABLE_NAME,
        table.RECORD_KEY,
        table.PARTITION_PATH,
        table.ORDERING,
        table.TABLE_TYPE,
        table.HIVE_STYLE,
    ),
    "A write": (write.OPERATION, write.INDEX_TYPE, write.SMALL_FILE_LIMIT, write.MAX_FILE_SIZE),
    "A read": (read.QUERY_TYPE, read.AS_OF_INSTANT, incremental.BEGIN, incremental.END, read.KEYS),
    "Indexes": (indexes.METADATA_ENABLE, indexes.DATA_SKIPPING, indexes.GLOBAL_RECORD_INDEX, indexes.COLUMN_STATS),
    "After a commit": (
        services.CLEAN_COMMITS_RETAINED,
        services.ARCHIVE_MAX_COMMITS,
        compaction.INLINE,
        compaction.MAX_DELTA_COMMITS,
        clustering.INLINE,
    ),
    "Several writers": (concurrency.MODE, concurrency.LOCK_PROVIDER),
    "Catalogs": (interop.ENABLED, interop.MODE),
}
"""What most users set."""


def options_page() -> str:
    """Renders the page as Markdown."""
    parts = [_HEAD, *_common()]
    for title, options in SECTIONS.items():
        parts += [f"## {title}\n", *(_honoured(option) for option in options if not option.internal)]
    parts += [
        "## Refused\n",
        "These options request features that are not implemented. Only the values in the middle column are accepted.\n",
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


def _common() -> Iterator[str]:
    """Lists the options that most users set, as links into the page."""
    yield "## Commonly set\n"
    yield "| | option | default | what it sets |"
    yield "|---|---|---|---|"
    for task, options in _COMMON.items():
        for option in options:
            first = _cell(option.help.split(". ")[0].rstrip("."))
            title = task if option is options[0] else ""
            yield f"| {title} | [`{option.key}`](#{_anchor(option)}) | {default_of(option)} | {first} |"
    yield ""


def _anchor(option: Option[Any]) -> str:
    """Returns the id of an option's heading in the site (Python-Markdown's `toc`)."""
    return option.key.lower().replace(".", "")


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
    entry = {"option": option.key, "treated": option.policy.value, "meaning": meaning}
    if option.policy is Policy.REFUSED:
        return {**entry, "accepted": [value for value in option.accepts if value], "also": list(option.aliases)}
    if option.policy is Policy.HARMLESS:
        return {**entry, "also": list(option.aliases)}
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    values: list[str] | str = list(option.choices) or option.kind
    example = f"{option.key}={option.shown}" if option.shown else None
    more = {"default": default, "values": values, "also": list(option.aliases), "since": option.since}
    return {**entry, **more, "example": example}


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
