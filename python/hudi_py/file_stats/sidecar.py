"""Sidecars: small files next to a write's staged data. Each contains what the metadata table needs from one data file,
so that the committing process neither reads the data file nor holds its keys in memory.

A sidecar is one or two consecutive Arrow IPC streams, named in their schema metadata: `keys`, the record keys added to
the file group or removed from it, in any order; and `ranges`, one batch of column statistics.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.storage import Storage

KEY: Final = "key"
REMOVED: Final = "removed"
KEYS_SCHEMA: Final = pa.schema([(KEY, pa.string()), (REMOVED, pa.bool_())])
"""Schema of record keys, with whether each was removed from the file group, or else added."""
_SECTION: Final = b"hudi_py.section"
_KEYS: Final = b"keys"
_RANGES: Final = b"ranges"
_MAX_HELD: Final = 32 << 20
"""Maximum size of sidecars in memory, of all writes of this process."""
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """What the metadata table needs from each data file of a write. Can be pickled."""

    keys: bool = False
    """Whether added and removed keys are needed, for the record index."""
    columns: tuple[str, ...] = ()
    """Columns whose ranges are needed."""


class Sidecar:
    """The sidecar of one data file, built compressed in memory. Not thread-safe."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._keys: pa.ipc.RecordBatchStreamWriter | None = None
        self._ranges: pa.RecordBatch | None = None
        self._data: bytes | None = None

    def begin_keys(self) -> None:
        """Marks the keys as known, even if none are added or removed."""
        if self._keys is None:
            schema = KEYS_SCHEMA.with_metadata({_SECTION: _KEYS})
            self._keys = pa.ipc.new_stream(self._sink, schema, options=_COMPRESSED)

    def add_keys(self, keys: pa.Array, *, removed: bool = False) -> None:
        """Adds keys (string) that were added to the file group or removed from it."""
        self.begin_keys()
        if len(keys) and self._keys is not None:
            flags = pa.repeat(pa.scalar(removed), len(keys))
            self._keys.write_batch(pa.RecordBatch.from_arrays([keys.cast(pa.string()), flags], schema=KEYS_SCHEMA))

    def set_ranges(self, ranges: pa.RecordBatch) -> None:
        """Sets the statistics, one row for each column."""
        self._ranges = ranges

    def save(self, storage: Storage, folder: str, name: str) -> None:
        """Stores the sidecar of the data file `name` (its path in the table)."""
        storage.put(sidecar_path(folder, name), self._content())

    def hold(self, storage: Storage, folder: str, name: str) -> bool:
        """Keeps the sidecar in memory instead, for a commit by this process, until `release_sidecars`. Returns False if
        there is no room."""
        return _HELD.put(storage.uri, sidecar_path(folder, name), self._content())

    def _content(self) -> bytes:
        if self._data is not None:
            return self._data
        if self._keys is not None:
            self._keys.close()
        if self._ranges is not None:
            known = dict(self._ranges.schema.metadata or {})
            schema = self._ranges.schema.with_metadata({**known, _SECTION: _RANGES})
            with pa.ipc.new_stream(self._sink, schema, options=_COMPRESSED) as writer:
                writer.write_batch(self._ranges)
        self._data = self._sink.getvalue().to_pybytes()
        return self._data


class SidecarContent:
    """A stored sidecar."""

    def __init__(self, data: bytes, context: str) -> None:
        self._data = pa.py_buffer(data)
        self._context = context
        self.num_bytes = len(data)

    @property
    def has_keys(self) -> bool:
        """Returns whether it lists added and removed keys."""
        return self._section(_KEYS) is not None

    def key_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields batches of `KEYS_SCHEMA`; keys may repeat."""
        reader = self._section(_KEYS)
        if reader is not None:
            for batch in reader:
                yield batch.replace_schema_metadata(None)

    @property
    def ranges(self) -> pa.RecordBatch | None:
        """Returns statistics of the columns; None if there are none."""
        reader = self._section(_RANGES)
        return None if reader is None else next(iter(reader), None)

    def _section(self, name: bytes) -> pa.ipc.RecordBatchStreamReader | None:
        source = pa.BufferReader(self._data)
        try:
            while source.tell() < self._data.size:
                reader = pa.ipc.open_stream(source)
                if (reader.schema.metadata or {}).get(_SECTION) == name:
                    return reader
                for _ in reader:  # skip to its end, where the next one begins
                    pass
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptFileError(f"Cannot read the sidecar {self._context}: {error}") from error
        return None


class _HeldSidecars:
    """Sidecars in memory, by URI of the table and path in it."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, bytes]] = {}
        self._num_bytes = 0
        self._lock = threading.Lock()

    def put(self, uri: str, path: str, data: bytes) -> bool:
        """Stores a sidecar; returns False if there is no room."""
        with self._lock:
            of_table = self._held.setdefault(uri, {})
            grown = self._num_bytes + len(data) - len(of_table.get(path, b""))
            if grown > _MAX_HELD:
                return False
            of_table[path] = data
            self._num_bytes = grown
            return True

    def get(self, uri: str, path: str) -> bytes | None:
        with self._lock:
            return self._held.get(uri, {}).get(path)

    def holds(self, uri: str, folder: str) -> bool:
        with self._lock:
            return any(path.startswith(f"{folder}/") for path in self._held.get(uri, {}))

    def release(self, uri: str, folder: str) -> None:
        with self._lock:
            of_table = self._held.get(uri, {})
            for path in [path for path in of_table if path.startswith(f"{folder}/")]:
                self._num_bytes -= len(of_table.pop(path))
            if not of_table:
                self._held.pop(uri, None)


_HELD: Final = _HeldSidecars()


def holds_sidecars(storage: Storage, folder: str) -> bool:
    """Returns whether this process holds sidecars of a write."""
    return _HELD.holds(storage.uri, folder)


def release_sidecars(storage: Storage, folder: str) -> None:
    """Drops the sidecars that this process holds for a write."""
    _HELD.release(storage.uri, folder)


def sidecar_path(folder: str, name: str) -> str:
    """Returns the path of the sidecar of the data file `name` (its path in the table)."""
    return f"{folder}/{name}.arrow"


def read_sidecar(storage: Storage, folder: str, name: str) -> SidecarContent | None:
    """Reads the sidecar of the data file `name` (its path in the table); None if there is none or `folder` is empty.

    Accessing its content raises CorruptFileError if it is not a sidecar.
    """
    if not folder:
        return None
    path = sidecar_path(folder, name)
    held = _HELD.get(storage.uri, path)
    if held is not None:
        return SidecarContent(held, f"{storage.uri}/{path}")
    try:
        return SidecarContent(storage.read(path), f"{storage.uri}/{path}")
    except FileNotFoundError:
        return None
