"""Paths of the write protocol's files, relative to a table's base path."""

from __future__ import annotations

from hudi_py.model.instant import InstantTime

META_FOLDER = ".hoodie"
LOCK_FILE = "lock"
MARKERS = ".hoodie/.temp"
HEARTBEATS = ".hoodie/.heartbeat"
STAGING = ".hoodie/.hudi_py"
REPORTS = f"{STAGING}/reports"
"""Reports of services and statements run for another process."""
SOURCES = f"{STAGING}/sources"
"""Rows that tasks stage for a statement, before it has an instant."""
ARCHIVE = "history"
"""Folder of the archived timeline within that of the active one, on timeline layout 2."""
METADATA_TABLE = ".hoodie/metadata"
PARTITION_METAFILE = ".hoodie_partition_metadata"


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
