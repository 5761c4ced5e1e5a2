"""`hudi-py diff`: compares rows, files and schema of two times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.cli.declare import CommandTarget
from hudi_py.cli.screen import Screen, ScreenColumn, number, records
from hudi_py.model.words import counted, show_bytes
from hudi_py.progress import Progress
from hudi_py.schema import COMMIT_SEQNO, COMMIT_TIME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from hudi_py.table import Table

_VERSION: Final = (COMMIT_TIME, COMMIT_SEQNO)
_WANTED: Final = (PARTITION_PATH, RECORD_KEY, *_VERSION)
_TIMES: Final = ("before", "after")
_NUL: Final = pa.scalar("\0", pa.large_string())
_MAX_ROWS: Final = 50


def diff(target: CommandTarget, before: str, after: str | None, keys: bool) -> None:
    """Implements `hudi-py diff`."""
    table, screen = target.open(), Screen()
    old, new = (table.scan(as_of=time).schema for time in (before, after))
    columns = changed_columns(old, new)
    compared = all(name in schema.names for name in _WANTED for schema in (old, new))
    changed = changed_rows(table, before, after) if compared else None
    files = changed_files(table, before, after)
    if target.as_json:
        counts = None if changed is None else {name: rows.num_rows for name, rows in changed.items()}
        answer: dict[str, Any] = {"rows": counts, "columns": columns, "files": files}
        if keys and changed is not None:
            answer["keys"] = {name: records(rows) for name, rows in changed.items()}
        screen.json(answer)
        return
    _show_rows(screen, changed, keys=keys)
    _show_columns(screen, columns)
    _show_files(screen, files)


def _show_rows(screen: Screen, changed: dict[str, pa.Table] | None, *, keys: bool) -> None:
    screen.title("Rows")
    if changed is None:
        screen.line("  Not compared: the rows have no meta columns.")
        return
    screen.line("  " + ", ".join(f"{rows.num_rows:,} {name}" for name, rows in changed.items()))
    if keys:
        _show_keys(screen, changed)


def _show_columns(screen: Screen, columns: list[dict[str, Any]]) -> None:
    screen.heading("Columns")
    if not columns:
        screen.line("  The same.")
    for column in columns:
        screen.line(f"  {column['column']}: {column['before'] or 'absent'} -> {column['after'] or 'absent'}")


def _show_files(screen: Screen, files: list[dict[str, Any]]) -> None:
    screen.heading("Files")
    if not files:
        screen.line("  The same.")
        return
    counts = Counter(row["change"] for row in files)
    screen.line("  " + ", ".join(f"{counted(count, 'file group')} {name}" for name, count in counts.items()))
    screen.line()
    listed = [
        [row["partition"] or ".", row["file_id"], row["change"], *(show_bytes(row[f"bytes_{time}"]) for time in _TIMES)]
        for row in files
    ]
    heads = [
        ScreenColumn("partition"),
        ScreenColumn("file id"),
        ScreenColumn("change", keep=True),
        number("before"),
        number("after"),
    ]
    screen.table(heads, listed[:_MAX_ROWS], empty="")
    if len(listed) > _MAX_ROWS:
        screen.note(f"{len(listed) - _MAX_ROWS:,} more; --json lists all.")


def changed_columns(old: pa.Schema, new: pa.Schema) -> list[dict[str, Any]]:
    """Lists columns that were added, removed or retyped: column, before and after (None: absent)."""
    types = [
        {field.name: str(field.type) for field in schema if field.name not in META_FIELDS} for schema in (old, new)
    ]
    names = dict.fromkeys((*types[0], *types[1]))
    return [
        {"column": name, "before": types[0].get(name), "after": types[1].get(name)}
        for name in names
        if types[0].get(name) != types[1].get(name)
    ]


def changed_files(table: Table, before: str, after: str | None) -> list[dict[str, Any]]:
    """Lists file groups that differ: partition, file_id, change (`added`, `removed`, `rewritten`: another base file,
    `appended`: other logs), files_removed, files_added, bytes_before, bytes_after."""
    old, new = (_slices(table, time) for time in (before, after))
    lines = []
    for key in sorted({*old, *new}):
        was, now = old.get(key, _NONE), new.get(key, _NONE)
        if was.names == now.names:
            continue
        if was is _NONE or now is _NONE:
            change = "added" if was is _NONE else "removed"
        else:
            change = "rewritten" if was.base != now.base else "appended"
        lines.append(
            {
                "partition": key[0],
                "file_id": key[1],
                "change": change,
                "files_removed": sorted(was.names - now.names),
                "files_added": sorted(now.names - was.names),
                "bytes_before": was.size,
                "bytes_after": now.size,
            }
        )
    return lines


@dataclass(frozen=True, slots=True)
class _SliceFiles:
    base: str | None = None
    names: frozenset[str] = frozenset()
    size: int = 0


_NONE: Final = _SliceFiles()


def _slices(table: Table, as_of: str | None) -> dict[tuple[str, str], _SliceFiles]:
    return {
        (row["partition"], row["file_id"]): _SliceFiles(
            row["base_file"],
            frozenset([*([row["base_file"]] if row["base_file"] else []), *row["log_files"]]),
            row["base_bytes"] + row["log_bytes"],
        )
        for row in records(table.files(as_of=as_of))
    }


def changed_rows(table: Table, before: str, after: str | None) -> dict[str, pa.Table]:
    """Returns partition and key of the rows inserted, updated and deleted between two times.

    A row is unchanged if it has the same commit and the same number in it, both of which services keep.
    """
    with Progress.on_terminal("comparing") as progress:
        progress.phase("reading keys")
        old, new = (_keyed(table.scan(columns=_WANTED, as_of=time).to_table()) for time in (before, after))
    inserted = pc.invert(pc.is_in(new["id"], value_set=old["id"].combine_chunks()))
    deleted = pc.invert(pc.is_in(old["id"], value_set=new["id"].combine_chunks()))
    same = pc.is_in(new["version"], value_set=old["version"].combine_chunks())
    updated = pc.and_(pc.invert(inserted), pc.invert(same))
    return {
        "inserted": _named(new.filter(inserted)),
        "updated": _named(new.filter(updated)),
        "deleted": _named(old.filter(deleted)),
    }


def _keyed(rows: pa.Table) -> pa.Table:
    """Returns partition, key, both as one text, and the same with the version of the row."""
    parts = [rows[name].cast(pa.large_string()) for name in _WANTED]
    identity = pc.binary_join_element_wise(*parts[:2], _NUL)
    version = pc.binary_join_element_wise(*parts, _NUL)
    return pa.table({"partition": rows[PARTITION_PATH], "key": rows[RECORD_KEY], "id": identity, "version": version})


def _named(rows: pa.Table) -> pa.Table:
    return rows.select(["partition", "key"])


def _show_keys(screen: Screen, changed: dict[str, pa.Table]) -> None:
    rows = [
        [name, row["partition"] or ".", row["key"]]
        for name, table in changed.items()
        for row in records(table.slice(0, _MAX_ROWS))
    ]
    screen.line()
    screen.table(
        [ScreenColumn("change", keep=True), ScreenColumn("partition"), ScreenColumn("record key")], rows, empty=""
    )
    most = max(table.num_rows for table in changed.values())
    if most > _MAX_ROWS:
        screen.note(f"At most {_MAX_ROWS} keys of each kind are shown; --json lists all.")
