"""The buckets of a partition under consistent hashing: each is a range of key hashes and has one file group.

Sources: `HoodieConsistentHashingMetadata`, `ConsistentBucketIdentifier`, Apache Hudi 1.2.0.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_py.errors import CorruptFileError
from hudi_py.formats.keys.buckets import hashed_texts
from hudi_py.formats.keys.hashing import xx_hash32
from hudi_py.model.limits import parse_json
from hudi_py.model.names import FileId

"""The folder with the buckets of each partition, in a folder of its path: `<instant>.hashing_meta`, and an empty file
`<instant>.commit` once that commit is known to have completed."""
RING_SUFFIX, COMMITTED_SUFFIX = ".hashing_meta", ".commit"
FIRST_INSTANT = "00000000000000"
"""The instant of a partition's initial buckets."""
_MAX_HASH = 2**31 - 1
_FILE_ID = re.compile(r"[\w-]+", re.ASCII)
_SUFFIX = "-0"
"""File group number of a bucket: each bucket has one file group, number 0."""


@dataclass(frozen=True, slots=True)
class BucketChange:
    """The change that a clustering makes to the bucket with a given end (`ConsistentHashingNode`, 1.2.0)."""

    end: int
    prefix: str | None
    """The file id of its new file group without the last two characters; None if the bucket is merged into the next."""


def encode_changes(changes: Iterable[BucketChange]) -> str:
    """Encodes the changes for a clustering plan, as Java does."""
    nodes = (
        {"value": change.end, "fileIdPrefix": change.prefix, "tag": "DELETE" if change.prefix is None else "REPLACE"}
        for change in changes
    )
    return f"[ {', '.join(json.dumps(node, indent=2, separators=(',', ' : ')) for node in nodes)} ]"


def decode_changes(text: str, context: str) -> tuple[BucketChange, ...]:
    """Decodes the changes of a plan.

    Raises:
        CorruptFileError: the text is something else; names `context`.
    """
    try:
        nodes = parse_json(text.encode())
        changes = tuple(
            BucketChange(int(node["value"]), None if node["tag"] == "DELETE" else str(node["fileIdPrefix"]))
            for node in nodes
        )
        prefixes = (change.prefix for change in changes if change.prefix is not None)
        ends_fit = all(0 <= change.end <= _MAX_HASH for change in changes)
        if not (changes and ends_fit and all(map(_FILE_ID.fullmatch, prefixes))):
            raise ValueError("a bucket has no end, or its file group is none")
        return changes
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"Cannot read {context}: no changes of hash buckets ({error})") from error


@dataclass(frozen=True, slots=True)
class HashRing:
    """The buckets of a partition, numbered from 0 by their ranges."""

    partition: str
    ends: tuple[int, ...]
    """The greatest hash of each bucket, ascending. Hashes greater than the last belong to the first bucket."""
    prefixes: tuple[str, ...]
    """The file id of each bucket without its last two characters."""
    num_buckets: int
    """Number of initial buckets of the partition."""
    instant: str = FIRST_INSTANT
    sequence: int = 0
    """Number of times the buckets were changed."""

    @classmethod
    def first(cls, partition: str, count: int) -> HashRing:
        """Returns the initial buckets of a partition: equal ranges, and file ids derived from them."""
        step = -(-_MAX_HASH // count)
        ends = [min(step * number, _MAX_HASH) for number in range(1, count + 1)]
        prefixes = [_bucket_prefix(partition, start, end) for start, end in zip([0, *ends], ends, strict=False)]
        return cls(partition, tuple(ends), tuple(prefixes), count)

    @classmethod
    def decode(cls, data: bytes, context: str) -> HashRing:
        """Decodes a `.hashing_meta` file.

        Raises:
            CorruptFileError: the content is something else; names `context`.
        """
        try:
            content = parse_json(data)
            # if several nodes have the same value the last one counts
            nodes = {int(node["value"]): str(node["fileIdPrefix"]) for node in content["nodes"]}
            ends = tuple(sorted(nodes))
            prefixes = tuple(nodes[end] for end in ends)
            if not ends or ends[0] < 0 or not all(prefixes):
                raise ValueError("it has no buckets, or one without a file group")
            sequence = int(content.get("seqNo", 0))
            return cls(
                str(content["partitionPath"]),
                ends,
                prefixes,
                int(content["numBuckets"]),
                str(content["instant"]),
                sequence,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"Cannot read {context}: no metadata of hash buckets ({error})") from error

    def encode(self) -> bytes:
        """Encodes the `.hashing_meta` file of these buckets, as Java does."""
        nodes = [
            {"value": end, "fileIdPrefix": prefix, "tag": "NORMAL"}
            for end, prefix in zip(self.ends, self.prefixes, strict=True)
        ]
        fields = {"version": 0, "partitionPath": self.partition, "instant": self.instant}
        text = json.dumps(
            {**fields, "numBuckets": self.num_buckets, "seqNo": self.sequence, "nodes": nodes},
            indent=2,
            separators=(",", " : "),
            ensure_ascii=False,
        )
        # Java's printer starts an object of a list on the line of the previous one
        for indented, plain in (("[\n    {", "[ {"), ("},\n    {", "}, {"), ("}\n  ]", "} ]"), ("\n      ", "\n    ")):
            text = text.replace(indented, plain)
        return text.replace("\n    }", "\n  }").encode()

    def renewed(self, instant: str, file_ids: Collection[str] | None = None) -> HashRing:
        """Returns the same ranges with other file groups, all of them or only those that replace some.

        Args:
            instant: of the write that replaces the file groups, from which the new ids follow.
        """
        prefixes = tuple(
            _named_file_id(instant, self.partition, end) if file_ids is None or prefix + _SUFFIX in file_ids else prefix
            for end, prefix in zip(self.ends, self.prefixes, strict=True)
        )
        return self._changed(instant, self.ends, prefixes)

    def split(self, instant: str, number: int) -> tuple[BucketChange, ...]:
        """Splits a bucket in two, if `middle` can halve it (`ConsistentBucketIdentifier.splitBucket`, 1.2.0).

        Args:
            instant: of the plan, from which the file ids of new buckets follow.
        """
        middle = self.middle(number)
        if middle is None:
            raise ValueError(f"bucket {number} has one hash")
        return tuple(
            BucketChange(end, _named_file_id(instant, self.partition, end)) for end in (middle, self.ends[number])
        )

    def merged(self, instant: str, numbers: Sequence[int]) -> tuple[BucketChange, ...]:
        """Merges adjacent buckets (`ConsistentBucketIdentifier.mergeBucket`, 1.2.0).

        Args:
            instant: see `split`.
            numbers: in the order of the ring, whose first bucket follows the last.
        """
        last = self.ends[numbers[-1]]
        gone = (BucketChange(self.ends[number], None) for number in numbers[:-1])
        return (*gone, BucketChange(last, _named_file_id(instant, self.partition, last)))

    def changed(self, instant: str, changes: Iterable[BucketChange]) -> HashRing:
        """Returns the ring after the clustering of an instant."""
        nodes = dict(zip(self.ends, self.prefixes, strict=True))
        for change in changes:
            if change.prefix is None:
                nodes.pop(change.end, None)
            else:
                nodes[change.end] = change.prefix
        ends = tuple(sorted(nodes))
        return self._changed(instant, ends, tuple(nodes[end] for end in ends))

    def middle(self, number: int) -> int | None:
        """Returns the greatest hash of a bucket's first half; None if it cannot be halved."""
        former, end = self.ends[number - 1], self.ends[number]
        middle = (former + end + (0 if former < end else _MAX_HASH + 1) >> 1) & _MAX_HASH
        return None if middle in (former, end) else middle

    def _changed(self, instant: str, ends: tuple[int, ...], prefixes: tuple[str, ...]) -> HashRing:
        return HashRing(self.partition, ends, prefixes, self.num_buckets, instant, self.sequence + 1)

    def file_id(self, number: int) -> FileId:
        """Returns the file id of a bucket's file group."""
        return FileId(self.prefixes[number] + _SUFFIX)

    def by_file_id(self) -> dict[str, int]:
        """Maps file ids to the numbers of their buckets."""
        return {self.file_id(number): number for number in range(len(self.prefixes))}

    def numbers(self, keys: pa.StringArray, hashed: Sequence[str], key_fields: Sequence[str]) -> npt.NDArray[np.int32]:
        """Returns the bucket of each record key. Arguments and errors are those of `bucket_numbers`."""
        hashes = (xx_hash32(hashed_texts(keys, hashed, key_fields)) & np.uint32(_MAX_HASH)).astype(np.int64)
        result: npt.NDArray[np.int32] = np.searchsorted(np.array(self.ends, np.int64), hashes).astype(np.int32)
        result[result == len(self.ends)] = 0
        return result


def _bucket_prefix(partition: str, start: int, end: int) -> str:
    """Computes Java's `UUID.nameUUIDFromBytes` of the range and the partition path."""
    return _name_uuid(start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode())


def _named_file_id(instant: str, partition: str, end: int) -> str:
    """Returns the file id of a bucket that a write creates; every process of the write derives the same one."""
    return _name_uuid(f"{instant} {end} {partition}".encode())


def _name_uuid(content: bytes) -> str:
    return str(uuid.UUID(bytes=md5(content, usedforsecurity=False).digest(), version=3))
