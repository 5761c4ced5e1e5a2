"""Paths of a table's own files, relative to its base path, and names that mean something there.

Data files, which lie in partitions, have their names in `model.names`; those of the timeline's files depend on the
table's version: `timeline.layout`.
"""

from __future__ import annotations

from typing import Final

from hudi_py.model.instant import InstantTime

META_FOLDER: Final = ".hoodie"
PROPERTIES: Final = ".hoodie/hoodie.properties"
BACKUP: Final = ".hoodie/hoodie.properties.backup"
"""A copy of the properties while they are written anew."""
UPDATED: Final = ".hoodie/hoodie.properties.updated"
"""Left by an upgrade of releases before 0.11 that was killed (`UpgradeDowngrade.HOODIE_UPDATED_PROPERTY_FILE`)."""
TIMELINE: Final = ".hoodie/timeline"
"""The active timeline in layout 2, unless `hoodie.timeline.path` names another folder. In layouts 0 and 1 it is in
`META_FOLDER`."""
ARCHIVE: Final = "history"
"""Folder of the archived timeline within that of the active one, in layout 2."""
OLD_ARCHIVE: Final = ".hoodie/archived"
"""The archived timeline of new tables in layout 1."""
AUXILIARY: Final = ".hoodie/.aux"
BOOTSTRAP_INDEX: Final = ".hoodie/.aux/.bootstrap/.partitions"
SCHEMAS: Final = ".hoodie/.schema"
"""History of the schema, if it is kept for reading."""
METADATA_TABLE: Final = ".hoodie/metadata"
INDEX_DEFINITIONS: Final = ".hoodie/.index_defs/index.json"
"""The default of `hoodie.table.index.defs.path`."""
RECORD_KEYS: Final = ".hoodie/.index_defs/record_keys.json"
"""Notes of hudi-py: which writes left record keys unique."""
BUCKET_INDEX: Final = ".hoodie/.bucket_index"
HASHING_METADATA: Final = f"{BUCKET_INDEX}/consistent_hashing_metadata"
BUCKET_RULES: Final = f"{BUCKET_INDEX}/partition_bucket_index_meta"
PARTITION_METAFILE: Final = ".hoodie_partition_metadata"
"""In each partition; with the extension of base files where `hoodie.partition.metafile.use.base.format` is set."""

LOCK_FILE: Final = "lock"
"""Within `META_FOLDER`, or the folder that `hoodie.write.lock.filesystem.path` names."""
LOCK_WAITING: Final = ".hoodie/lock.waiting"
BROKEN_LOCK: Final = ".hoodie/lock.broken."
"""Followed by the owner of a lock that `repair` breaks."""
LOCKS: Final = ".hoodie/.locks"
STORAGE_LOCK: Final = f"{LOCKS}/table_lock.json"
MARKERS: Final = ".hoodie/.temp"
HEARTBEATS: Final = ".hoodie/.heartbeat"
STAGING: Final = ".hoodie/.hudi_py"
SOURCES: Final = f"{STAGING}/sources"
"""Rows that tasks stage for a statement or a small write, before it has an instant."""
REPAIRS: Final = ".hoodie/.hudi_py_repair"


def marker_folder(instant: InstantTime) -> str:
    """Folder of the instant's markers. It must hold nothing else: Java's rollback takes every file for a marker."""
    return f"{MARKERS}/{instant}"


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def write_folder(instant: InstantTime) -> str:
    """Folder of hudi-py's own files of a running write, removed with it."""
    return f"{STAGING}/{instant}"


def claim_path(instant: InstantTime) -> str:
    """Exists while an attempt accepts files; holds its owner's identity. Commit and rollback remove it first."""
    return f"{write_folder(instant)}/open"


def owner_path(instant: InstantTime) -> str:
    """Holds the identity of the owner of an attempt at a plan until the attempt is over."""
    return f"{write_folder(instant)}/owner"


def forbidden_path(instant: InstantTime) -> str:
    """Exists if a write was aborted before any of its tasks had begun it."""
    return f"{write_folder(instant)}/barred"


def temporary_folder(instant: InstantTime) -> str:
    """Unpublished data files."""
    return f"{write_folder(instant)}/files"


def stage_folder(instant: InstantTime) -> str:
    """Intermediate files of engines."""
    return f"{write_folder(instant)}/stage"


def sidecar_folder(instant: InstantTime) -> str:
    """Statistics of data files, for the metadata table."""
    return f"{stage_folder(instant)}/sidecars"
