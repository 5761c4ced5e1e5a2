"""Partitions, file groups and file slices of a table at an instant."""

from __future__ import annotations

from hudi_py.view.filesystem_view import FileSystemView, load_view
from hudi_py.view.lister import Lister, StorageLister

__all__ = ["FileSystemView", "Lister", "StorageLister", "load_view"]
