"""Where inputs begin: the files of the golden tables, by what they hold."""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
GOLDEN: Final = ROOT / "golden" / "data"
OLD: Final = ROOT / "golden" / "old"
KRYO: Final = ROOT / "unit" / "formats" / "kryo_samples.json"
MOST: Final = 24
"""Seeds of one kind."""
LARGEST: Final = 1 << 16
TABLES: Final = (
    "v2_mor",
    "v2_mor_layout_0",
    "v5_12_mor",
    "v6_cow_archived",
    "v6_cow_orc",
    "v6_mor_clustering_pending",
    "v6_mor_compaction_pending",
    "v6_mor_is_deleted",
    "v6_mor_logcompaction",
    "v6_mor_no_meta_fields",
    "v6_mor_rollback",
    "v8_mor_consistent_hashing",
    "v8_mor_rollback",
    "v9_cow_no_meta_fields",
    "v9_cow_schema_on_read",
    "v9_mor_archived",
    "v9_mor_cdc_op_key",
    "v9_mor_is_deleted",
    "v9_mor_merge_into_partial",
    "v9_mor_multi_ordering",
    "v9_mor_savepoint_restore",
    "v9_mor_secondary_index",
)
"""Together they have every kind of file."""
SMALL_TABLES: Final = (*(name for name in TABLES if name.startswith(("v2", "v5", "v6_mor"))), "v9_mor_multi_ordering")


@functools.cache
def table(name: str) -> Mapping[str, bytes]:
    """The files of a table by their paths, relative to its base path."""
    folder = OLD if (OLD / name / "table.tar.gz").exists() else GOLDEN
    files: dict[str, bytes] = {}
    with tarfile.open(folder / name / "table.tar.gz") as archive:
        for member in archive:
            found = archive.extractfile(member) if member.isfile() else None
            if found is not None:
                files[member.name.partition("/")[2]] = found.read()
    return files


def _files() -> Iterator[tuple[str, bytes]]:
    """(path, content) of their files."""
    for name in TABLES:
        yield from table(name).items()


@functools.cache
def seeds(kind: str) -> tuple[bytes, ...]:
    """Contents of one kind, without repetitions, from the shortest to the longest; see `KINDS`."""
    if kind == "kryo":
        return tuple(bytes.fromhex(text) for text in json.loads(KRYO.read_text()).values() if len(text) < 4000)
    test = KINDS[kind]
    found = {content for path, content in _files() if content and len(content) <= LARGEST and test(path)}
    ordered = sorted(found, key=lambda content: (len(content), content))
    return tuple(ordered[len(ordered) * at // MOST] for at in range(MOST)) if len(ordered) > MOST else tuple(ordered)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_log(path: str) -> bool:
    return ".log." in _name(path) and ".hoodie/" not in path


KINDS: Final = {
    "properties": lambda path: _name(path) == "hoodie.properties",
    "commit": lambda path: path.endswith((".commit", ".deltacommit", ".replacecommit")),
    "plan": lambda path: path.endswith((".compaction.requested", ".replacecommit.requested", ".clustering.requested")),
    "clean": lambda path: path.endswith((".clean", ".clean.requested", ".rollback", ".rollback.requested")),
    "log": _is_log,
    "metadata_log": lambda path: ".log." in _name(path) and ".hoodie/metadata/" in path,
    "archive": lambda path: _name(path).startswith(".commits_.archive."),
    "manifest": lambda path: _name(path).startswith("manifest_"),
    "history": lambda path: "/history/" in path and path.endswith(".parquet"),
    "parquet": lambda path: path.endswith(".parquet") and ".hoodie" not in path,
    "hfile": lambda path: path.endswith(".hfile"),
    "schema": lambda path: path.endswith(".schemacommit"),
}
