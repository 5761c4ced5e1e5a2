"""Bytes at a path: local folders, memory, object stores and HDFS behind one protocol."""

from __future__ import annotations

from hudi_py.storage.base import FileInfo, Storage
from hudi_py.storage.hdfs import HdfsStorage
from hudi_py.storage.local import LocalStorage
from hudi_py.storage.memory import MemoryStorage
from hudi_py.storage.objects import ObjectStorage
from hudi_py.storage.open import (
    StrPath,
    hadoop_uri,
    open_beside,
    open_for_write,
    open_storage,
    path_text,
    plain_uri,
    with_durability,
)
from hudi_py.storage.within import FolderStorage, HeldStorage, holding

__all__ = [
    "FileInfo",
    "FolderStorage",
    "HdfsStorage",
    "HeldStorage",
    "LocalStorage",
    "MemoryStorage",
    "ObjectStorage",
    "Storage",
    "StrPath",
    "hadoop_uri",
    "holding",
    "open_beside",
    "open_for_write",
    "open_storage",
    "path_text",
    "plain_uri",
    "with_durability",
]
