"""Consistent hashing: the bucket index whose buckets are split and merged.

Sources: `HoodieSparkConsistentBucketIndex`, `ConsistentBucketIndexUtils`, Apache Hudi 1.2.0. Unlike with the simple
bucket index, the buckets of each partition are stored with the table, in the order of the commits that changed them. A
bucket keeps its file group, to which nothing can be added once it is replaced. So an overwrite changes the buckets like
a clustering: they keep their ranges, and get other file groups. Apache Hudi 1.2.0 writes to the replaced file groups.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import ConflictError
from hudi_py.formats.keys.hash_ring import COMMITTED_SUFFIX, FIRST_INSTANT, RING_SUFFIX, HashRing
from hudi_py.model.files import FileSlice
from hudi_py.model.layout import HASHING_METADATA
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.view import FileSystemView
from hudi_py.write.index.bucket import BucketIndex, check_file_keys, mismatch, spread_by_partition
from hudi_py.write.rows import KeyedRows


class ConsistentBuckets:
    """The buckets of a table; see `Buckets`. Reads those of each partition once. Thread-safe."""

    fixed_ids = True

    def __init__(self, index: BucketIndex, view: FileSystemView, instant: str = "") -> None:
        """Creates the buckets. `instant`: the instant of the write, if it has begun."""
        self._index = index
        self._instant = instant
        self._storage = view.state.storage
        self._timeline = view.timeline
        self._view = view
        self._rings: dict[str, HashRing] = {}
        self._stored: set[str] = set()
        """Partitions whose buckets are stored in the table."""
        self._renewed: dict[str, HashRing] = {}
        """New buckets of partitions from this write."""
        self._lock = threading.Lock()

    def numbers(self, keys: pa.StringArray, partition: str) -> npt.NDArray[np.int32]:
        return self.ring(partition).numbers(keys, self._index.hashed, self._index.key_fields)

    def spread(self, keyed: KeyedRows) -> KeyedRows:
        return spread_by_partition(self, keyed)

    def new_file_id(self, number: int, partition: str, *, fixed: bool = True) -> FileId:
        """Returns the file id of a bucket, see `Buckets.new_file_id`.

        Raises:
            ConfigError: not `fixed`, and the file group of the bucket was replaced: additions to it would not be seen.
            ConflictError: another write has created other buckets for the partition in the meantime.
        """
        ring = self.ring(partition)
        if not fixed:
            raise mismatch(
                f"the file group {ring.file_id(number)} of one of its hash buckets was replaced by an overwrite or "
                "deleted with its partition, and a hash bucket has no other; write other partitions, or make the table "
                "anew",
                partition,
            )
        self._store_first(ring)
        return ring.file_id(number)

    def replacing_file_id(self, number: int, partition: str) -> FileId:
        return self._replace_ring(partition, None).file_id(number)

    def replace(self, partition: str, file_ids: Collection[str] | None = None) -> None:
        self._replace_ring(partition, file_ids)

    def after_commit(self) -> None:
        for partition in self._renewed:
            self._storage.touch(f"{_metadata_folder(partition)}/{self._instant}{COMMITTED_SUFFIX}")

    def store(self, ring: HashRing) -> None:
        """Stores the buckets that a partition gets from this write; they count once it has completed.

        Raises:
            ConflictError: it has stored others.
        """
        path, content = f"{_metadata_folder(ring.partition)}/{ring.instant}{RING_SUFFIX}", ring.encode()
        if not self._storage.put_if_absent(path, content) and self._storage.read(path) != content:
            raise ConflictError(
                f"Cannot write to partition '{ring.partition}' of {self._storage.uri}: {path} has other hash buckets "
                "than this write has found; write again"
            )
        self._renewed[ring.partition] = ring

    def _replace_ring(self, partition: str, file_ids: Collection[str] | None) -> HashRing:
        ring = self.ring(partition)
        with self._lock:
            if partition not in self._renewed:
                self.store(ring.renewed(self._instant, file_ids))
            return self._renewed[partition]

    def by_number(self, slices: Iterable[FileSlice], partition: str) -> dict[int, FileSlice]:
        numbers, by_bucket = self.ring(partition).by_file_id(), {}
        for slice_ in slices:
            if slice_.file_id not in numbers:
                raise mismatch(
                    f"its file group {slice_.file_id} is none of the {len(numbers)} hash buckets of the partition, so "
                    "the table is written with another index",
                    partition,
                )
            by_bucket[numbers[slice_.file_id]] = slice_
        return by_bucket

    def check_keys(self, slices: Mapping[int, FileSlice]) -> None:
        check_file_keys(self, self._index, self._storage, slices)

    def ring(self, partition: str) -> HashRing:
        """Returns the buckets of a partition before this write.

        Raises:
            CorruptFileError: they cannot be read.
        """
        with self._lock:
            ring = self._rings.get(partition)
            if ring is None:
                ring = self._load_ring(partition)
                if ring is not None:
                    self._stored.add(partition)
                self._rings[partition] = ring = ring or HashRing.first(partition, self._index.count)
            return ring

    def _load_ring(self, partition: str) -> HashRing | None:
        """Reads the buckets from the newest metadata that counts; None: the partition has none."""
        folder = _metadata_folder(partition)
        names = self._storage.names(folder)
        committed = {name.partition(".")[0] for name in names if name.endswith(COMMITTED_SUFFIX)}
        for name in sorted((name for name in names if name.endswith(RING_SUFFIX)), reverse=True):
            path, instant = f"{folder}/{name}", name.partition(".")[0]
            ring = HashRing.decode(self._storage.read(path), f"{self._storage.uri}/{path}")
            if instant == FIRST_INSTANT or instant in committed or self._is_valid(instant, ring):
                return ring
        return None

    def _is_valid(self, instant: str, ring: HashRing) -> bool:
        """Returns whether the clustering that wrote the metadata completed, which its file groups show once it is
        archived."""
        if self._timeline.find(instant) is not None or not self._timeline.is_committed(instant):
            return self._timeline.find(instant) in self._timeline.write_completed
        known = ring.by_file_id()
        return any(slice_.file_id in known for slice_ in self._view.latest_slices(PartitionPath(ring.partition)))

    def _store_first(self, ring: HashRing) -> None:
        """Stores the first buckets of a partition. They stay if the write fails, as Apache Hudi's do."""
        with self._lock:
            if ring.partition in self._stored:
                return
            path = f"{_metadata_folder(ring.partition)}/{FIRST_INSTANT}{RING_SUFFIX}"
            if not self._storage.put_if_absent(path, ring.encode()):
                there = HashRing.decode(self._storage.read(path), f"{self._storage.uri}/{path}")
                if there != ring:
                    raise ConflictError(
                        f"Cannot write to partition '{ring.partition}': another write has created {there.num_buckets} "
                        f"hash buckets for it in the meantime, this one {ring.num_buckets}; write again"
                    )
            self._stored.add(ring.partition)


def _metadata_folder(partition: str) -> str:
    return f"{HASHING_METADATA}/{partition}" if partition else HASHING_METADATA
