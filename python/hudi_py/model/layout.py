"""Paths of a table's own files, relative to its base path, and names with a meaning there.

Names of data files are in `model.names`. Names of timeline files depend on the table's version and are in
`timeline.layout`.
"""

from __future__ import annotations

from typing import Final

from hudi_py.model.instant import InstantTime

META_FOLDER: Final = ".hoodie"
PROPERTIES: Final = ".hoodie/hoodie.properties"
BACKUP: Final = ".hoodie/hoodie.properties.backup"
"""A copy of the properties while they are written anew."""
UPDATED: Final = ".hoodie/hoodie.properties.updated"
"""Left behind if an upgrade by a release before 0.11 was killed (`UpgradeDowngrade.HOODIE_UPDATED_PROPERTY_FILE`)."""
TIMELINE: Final = ".hoodie/timeline"
"""The active timeline in layout 2, unless `hoodie.timeline.path` names another folder. In layouts 0 and 1 it is in
`META_FOLDER`."""
ARCHIVE: Final = "history"
"""Folder of the archived timeline within that of the active one, in layout 2."""
OLD_ARCHIVE: Final = ".hoodie/archived"
"""The archived timeline of new tables in layout 1."""
AUXILIARY: Final = ".hoodie/.aux"
BOOTSTRAP_INDEX: Final = ".hoodie/.aux/.bootstrap/.partitions"
"""The index of bootstrapped files by partition."""
BOOTSTRAP_FILES: Final = ".hoodie/.aux/.bootstrap/.fileids"
"""The same by file group."""
SCHEMAS: Final = ".hoodie/.schema"
"""History of the schema, if it is kept for reading."""
METADATA_TABLE: Final = ".hoodie/metadata"
INDEX_DEFINITIONS: Final = ".hoodie/.index_defs/index.json"
"""The default of `hoodie.table.index.defs.path`."""
RECORD_KEYS: Final = ".hoodie/.index_defs/record_keys.json"
"""hudi-py's record of which writes kept record keys unique."""
BUCKET_INDEX: Final = ".hoodie/.bucket_index"
HASHING_METADATA: Final = f"{BUCKET_INDEX}/consistent_hashing_metadata"
BUCKET_RULES: Final = f"{BUCKET_INDEX}/partition_bucket_index_meta"
PARTITION_METAFILE: Final = ".hoodie_partition_metadata"
"""A file in each partition; it has the extension of base files if `hoodie.partition.metafile.use.base.format` is
set."""
PARTITION_METAFILES: Final = frozenset(PARTITION_METAFILE + extension for extension in ("", ".parquet", ".orc"))

LOCK_FILE: Final = "lock"
"""Name within `META_FOLDER`, or within the folder in `hoodie.write.lock.filesystem.path`."""
LOCK_WAITING: Final = ".hoodie/lock.waiting"
BROKEN_LOCK: Final = ".hoodie/lock.broken."
"""Prefix of the name of a lock that `repair` breaks; the owner follows."""
LOCKS: Final = ".hoodie/.locks"
STORAGE_LOCK: Final = f"{LOCKS}/table_lock.json"
LOCK_AUDIT_CONFIG: Final = f"{LOCKS}/audit_enabled.json"
"""Says whether Apache Hudi's writers record each use of `STORAGE_LOCK`."""
LOCK_AUDIT: Final = f"{LOCKS}/audit"
"""Folder of these records, one file for each transaction."""
MARKERS: Final = ".hoodie/.temp"
HEARTBEATS: Final = ".hoodie/.heartbeat"
STAGING: Final = ".hoodie/.hudi_py"
SOURCES: Final = f"{STAGING}/sources"
"""Folder of rows that tasks stage for a statement or a small write before it has an instant."""
REPAIRS: Final = ".hoodie/.hudi_py_repair"


def marker_folder(instant: InstantTime) -> str:
    """Returns the folder of an instant's markers. It must hold nothing else: Java's rollback takes every file in it for
    a marker."""
    return f"{MARKERS}/{instant}"


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def write_folder(instant: InstantTime) -> str:
    """Returns the folder of hudi-py's own files of a running write. It is removed with the write."""
    return f"{STAGING}/{instant}"


def claim_path(instant: InstantTime) -> str:
    """Returns the path of the claim, which exists while an attempt accepts files and holds its owner's identity. Commit
    and rollback remove it first."""
    return f"{write_folder(instant)}/open"


def owner_path(instant: InstantTime) -> str:
    """Returns the path of the file that holds the identity of an attempt's owner until the attempt is over."""
    return f"{write_folder(instant)}/owner"


def forbidden_path(instant: InstantTime) -> str:
    """Returns the path of the file that exists if a write was aborted before any of its tasks had begun it."""
    return f"{write_folder(instant)}/barred"


def temporary_folder(instant: InstantTime) -> str:
    """Returns the folder of unpublished data files."""
    return f"{write_folder(instant)}/files"


def stage_folder(instant: InstantTime) -> str:
    """Returns the folder of an engine's intermediate files."""
    return f"{write_folder(instant)}/stage"


def sidecar_folder(instant: InstantTime) -> str:
    """Returns the folder of data file statistics for the metadata table."""
    return f"{stage_folder(instant)}/sidecars"
