"""Partitions, file groups and file slices of a table at an instant."""

from __future__ import annotations

from hudi_py.view.filesystem_view import FileSystemView, load_view
from hudi_py.view.lister import PARTITION_METAFILE, Lister, StorageLister

__all__ = ["PARTITION_METAFILE", "FileSystemView", "Lister", "StorageLister", "load_view"]
