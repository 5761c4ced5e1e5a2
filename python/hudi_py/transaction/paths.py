"""Where the write protocol keeps its files, relative to a table's base path."""

from __future__ import annotations

from hudi_py.model.instant import InstantTime

META_FOLDER = ".hoodie"
LOCK_FILE = "lock"
MARKERS = ".hoodie/.temp"
HEARTBEATS = ".hoodie/.heartbeat"
STAGING = ".hoodie/.hudi_py"
REPORTS = f"{STAGING}/reports"
"""Reports of services that another process asked for."""
ARCHIVE = "history"
"""Folder of the archived timeline below that of the active one, on timeline layout 2."""
METADATA_TABLE = ".hoodie/metadata"
PARTITION_METAFILE = ".hoodie_partition_metadata"


def marker_folder(instant: InstantTime) -> str:
    """Only marker files may ever lie here: Java's rollback takes whatever it finds for one."""
    return f"{MARKERS}/{instant}"


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def write_folder(instant: InstantTime) -> str:
    """All of ours that belongs to a running write and vanishes with it."""
    return f"{STAGING}/{instant}"


def claim_path(instant: InstantTime) -> str:
    """Exists while an attempt takes files; holds its owner's identity. Removed first by commit and by rollback."""
    return f"{write_folder(instant)}/open"


def owner_path(instant: InstantTime) -> str:
    """Holds the identity of the owner of an attempt at a plan until the attempt is over."""
    return f"{write_folder(instant)}/owner"


def forbidden_path(instant: InstantTime) -> str:
    """Exists where a write was aborted before any of its tasks had begun it."""
    return f"{write_folder(instant)}/barred"


def temporary_folder(instant: InstantTime) -> str:
    """Data files not yet published."""
    return f"{write_folder(instant)}/files"


def stage_folder(instant: InstantTime) -> str:
    """Intermediate files of engines."""
    return f"{write_folder(instant)}/stage"
