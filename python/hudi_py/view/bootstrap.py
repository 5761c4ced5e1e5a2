"""Reads the bootstrap index (format reference 1.6: `.aux/.bootstrap`).

A METADATA_ONLY bootstrap writes base files with only the meta columns, at the instant `00000000000001`, and an index
that names the source file of each. Source: `HFileBootstrapIndex`, `BootstrapBaseFileMapping` (1.2.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudi_py.errors import CorruptFileError, UnsupportedTableError
from hudi_py.formats.hfile import open_hfile
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.records import decode_record

BASE_PATH = "hoodie.bootstrap.base.path"
METADATA_INSTANT = "00000000000001"
"""Base files of this instant are skeletons (`HoodieTimeline.METADATA_BOOTSTRAP_INSTANT_TS`)."""
_INDEX_FOLDER = ".hoodie/.aux/.bootstrap/.partitions"
_INDEX_CLASSES = frozenset(("", "HFileBootstrapIndex"))
_INDEX_TYPES = frozenset(("", "HFILE"))


def load_bootstrap_sources(storage: Storage, config: TableConfig) -> Mapping[tuple[str, str], str]:
    """(partition path, file id) to the URI of its source file; empty for tables that are not bootstrapped.

    Raises:
        UnsupportedTableError: the table has an index of another kind.
        CorruptFileError: the index cannot be read.
    """
    properties = config.properties
    if not properties.get(BASE_PATH, "").strip():
        return {}
    name = properties.get("hoodie.bootstrap.index.class", "").strip()
    kind = properties.get("hoodie.bootstrap.index.type", "").strip().upper()
    enabled = properties.get("hoodie.bootstrap.index.enable", "true").strip().lower() != "false"
    if not enabled or name.endswith(".NoOpBootstrapIndex") or kind == "NO_OP":
        return {}
    if name.rpartition(".")[2] not in _INDEX_CLASSES or kind not in _INDEX_TYPES:
        raise UnsupportedTableError(
            f"Table at {storage.uri} has the bootstrap index {name or kind} (hoodie.bootstrap.index.class, "
            "hoodie.bootstrap.index.type); supported is HFileBootstrapIndex"
        )
    sources: dict[tuple[str, str], str] = {}
    for info in storage.list(_INDEX_FOLDER):
        if info.is_dir or not info.name.endswith(".hfile"):
            continue
        context = f"the bootstrap index {storage.uri}/{info.path}"
        entries = open_hfile(storage, info.path, info.size).scan()
        for value in entries.values.to_pylist():
            sources.update(_sources(decode_record(value, context), context))
    return sources


def _sources(record: Mapping[str, Any], context: str) -> dict[tuple[str, str], str]:
    partition, files = record.get("partitionPath"), record.get("fileIdToBootstrapFile")
    if not isinstance(partition, str) or not isinstance(files, dict):
        raise CorruptFileError(f"Cannot read {context}: an entry has no partitionPath or fileIdToBootstrapFile")
    found: dict[tuple[str, str], str] = {}
    for file_id, status in files.items():
        path = (status or {}).get("path") or {}
        if not isinstance(path.get("uri"), str):
            raise CorruptFileError(f"Cannot read {context}: the source of file {file_id} has no path")
        found[partition, file_id] = path["uri"]
    return found
