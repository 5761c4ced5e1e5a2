"""Splits large buckets of consistent hashing and merges small ones.

Sources: `BaseConsistentHashingBucketClusteringPlanStrategy`, `SparkConsistentBucketClusteringExecutionStrategy`, Apache
Hudi 1.2.0. There it is a clustering with a plan, which also writes the other buckets of a partition again. Here one
process plans and writes at once, and leaves what a completed clustering leaves: a replacecommit whose rows keep their
meta columns, and new metadata of the buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_py.config import Option, Options, Scope
from hudi_py.config import indexes as index_config
from hudi_py.config import write as write_config
from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.arrays import combined
from hudi_py.formats.hash_ring import HashRing
from hudi_py.model.commit import WriteStat
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.model.operation import Operation
from hudi_py.model.words import counted
from hudi_py.read import make_scan
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.split import Split
from hudi_py.read.support import text_partition_columns
from hudi_py.read.task import read_split_on
from hudi_py.schema import FILE_NAME, RECORD_KEY
from hudi_py.services.context import ServiceContext
from hudi_py.services.planned.report import ServiceReport
from hudi_py.timeline.pending_plans import COMPACTIONS, PendingPlans
from hudi_py.timeline.plans import FileGroup
from hudi_py.transaction.transaction import NothingToDoError
from hudi_py.view import FileSystemView
from hudi_py.write.context import WriteContext
from hudi_py.write.handles.base import BaseFileHandle
from hudi_py.write.index.bucket import DEFAULT_BUCKETS
from hudi_py.write.index.consistent import ConsistentBuckets
from hudi_py.write.rewrite import GroupsToReplace, rewrite_groups
from hudi_py.write.settings import settings_as_stored

_SERVICE = "resize_buckets"


@dataclass(frozen=True, slots=True, repr=False)
class ResizeReport(ServiceReport):
    """The result of `resize_buckets`."""

    num_split: int = 0
    """Buckets that became two."""
    num_merged: int = 0
    """Buckets that were merged with neighbours."""
    num_partitions: int = 0
    """Partitions whose buckets changed."""
    num_files: int = 0
    """Files written."""
    num_bytes: int = 0

    def _summary(self) -> Iterator[str]:
        if self.instant is not None:
            yield f"{counted(self.num_split, 'bucket')} split"
            yield f"{counted(self.num_merged, 'bucket')} merged"
            yield f"in {counted(self.num_partitions, 'partition')}"


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """When buckets are split and merged. Sizes are bytes of base file and logs."""

    most: int
    least: int
    split_above: int
    merge_below: int

    @classmethod
    def of(cls, options: Options) -> BucketLimits:
        size, first = options.get(write_config.MAX_FILE_SIZE), options.get(index_config.BUCKETS) or DEFAULT_BUCKETS
        most, least = options.get(index_config.MOST_BUCKETS), options.get(index_config.LEAST_BUCKETS)
        return cls(
            most if most > 0 else first,
            least if least > 0 else first,
            int(size * options.get(index_config.SPLIT_THRESHOLD)),
            int(size * options.get(index_config.MERGE_THRESHOLD)),
        )


@dataclass(frozen=True, slots=True)
class Resizing:
    """What becomes of the buckets of a partition, by their numbers."""

    split: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]
    """Neighbours that become one, in the order of the ring, whose first bucket follows the last."""

    @property
    def numbers(self) -> frozenset[int]:
        """Buckets whose file groups are replaced."""
        return frozenset(self.split).union(*self.merged)


@dataclass(frozen=True, slots=True)
class _ResizePlan(GroupsToReplace):
    chosen: Mapping[PartitionPath, Resizing]


def resize_buckets(context: ServiceContext, instant: str | None = None) -> ResizeReport:
    """Splits buckets that are larger than `hoodie.bucket.index.split.threshold` says, and merges neighbours that are
    smaller than `hoodie.bucket.index.merge.threshold` says, within `hoodie.bucket.index.min.num.buckets` and `max`.

    Args:
        instant: must be None.

    Raises:
        UnsupportedTableError: the table does not have consistent hashing.
        ConflictError: another write has completed meanwhile.
    """
    session, options = context.session.reread(), context.options
    storage, config = session.storage, session.config
    if options.get(index_config.BUCKET_ENGINE) != "CONSISTENT_HASHING":
        raise UnsupportedTableError(
            f"Cannot resize the buckets of the table '{config.name}' with {index_config.BUCKET_ENGINE.key} = "
            f"'{options.get(index_config.BUCKET_ENGINE)}'; supported: CONSISTENT_HASHING. Table.rescale_buckets "
            "changes those of a simple bucket index"
        )
    if text_partition_columns(config) or config.cdc_enabled:
        raise UnsupportedTableError(
            f"Cannot resize the buckets of the table '{config.name}', which logs changes or has a key generator that "
            "makes partition paths of times; cluster it with Apache Hudi"
        )
    indexed: dict[Option[Any], str] = {write_config.INDEX_TYPE: "BUCKET"}

    def choose(view: FileSystemView) -> _ResizePlan:
        given = options.replace(indexed)
        settings = settings_as_stored(view, Operation.INSERT_OVERWRITE, given, "resize the buckets of")
        assert settings.index.buckets is not None
        before = ConsistentBuckets(settings.index.buckets, view)
        plans = PendingPlans(storage, view.timeline)
        busy = {group for pending in plans.of(*COMPACTIONS) for group in plans.file_groups(pending)}
        chosen = _chosen(before, view, BucketLimits.of(options), busy)
        if not chosen:
            raise NothingToDoError("no bucket is large or small enough")
        groups = {
            str(path): [str(before.ring(path).file_id(number)) for number in sorted(resizing.numbers)]
            for path, resizing in chosen.items()
        }
        return _ResizePlan(groups, settings, chosen)

    try:
        commit, stats, plan = rewrite_groups(
            session, choose, _resized, operation="CLUSTER", verb="resize", progress=context.progress
        )
    except NothingToDoError as error:
        return ResizeReport(_SERVICE, None, reason=str(error))
    return ResizeReport(
        _SERVICE,
        commit.instant,
        commit.completion_time,
        num_split=sum(len(each.split) for each in plan.chosen.values()),
        num_merged=sum(len(numbers) for each in plan.chosen.values() for numbers in each.merged),
        num_partitions=len(plan.chosen),
        num_files=len(stats),
        num_bytes=sum(stat.file_size for stat in stats),
    )


def _resized(write: WriteContext, plan: _ResizePlan) -> Iterator[WriteStat]:
    """Write the rows of the chosen buckets to those that take their place."""
    assert isinstance(write.buckets, ConsistentBuckets)
    splits = _splits(write, plan.chosen)
    for path, resizing in plan.chosen.items():
        ring = write.buckets.ring(path)
        after = ring.resized(str(write.transaction.instant), resizing.split, resizing.merged)
        write.buckets.store(after)
        for numbers in (*((number,) for number in resizing.split), *resizing.merged):
            yield from _rewritten(write, after, path, [splits[path, ring.file_id(number)] for number in numbers])


def planned(ring: HashRing, sizes: Mapping[int, int], limits: BucketLimits) -> Resizing | None:
    """Which buckets of a partition to split and merge; None: none.

    Args:
        sizes: bytes of the buckets that have files and may be changed, by their numbers.
    """
    room = limits.most - len(ring.ends)
    split = [
        number for number in sorted(sizes) if sizes[number] > limits.split_above and ring.middle(number) is not None
    ]
    split = split[: max(room, 0)]
    surplus = len(ring.ends) - limits.least + len(split)
    merged: list[tuple[int, ...]] = []
    left = [number for number in sorted(sizes) if number not in split]
    taken: set[int] = set()
    for number in left:
        if number in taken or sizes[number] > limits.merge_below:
            continue
        chain, total = [number], sizes[number]
        for step in (-1, 1):
            while surplus > 0 and total <= limits.merge_below:
                near = ((chain[0] if step < 0 else chain[-1]) + step) % len(ring.ends)
                if near in taken or near in chain or near not in left or sizes[near] > limits.merge_below:
                    break
                chain = [near, *chain] if step < 0 else [*chain, near]
                total += sizes[near]
                surplus -= 1
        if len(chain) > 1:
            taken.update(chain)
            merged.append(tuple(chain))
    return Resizing(tuple(split), tuple(merged)) if split or merged else None


def _chosen(
    buckets: ConsistentBuckets, view: FileSystemView, limits: BucketLimits, busy: Collection[FileGroup]
) -> dict[PartitionPath, Resizing]:
    """What to do with each partition. `busy`: file groups of pending compactions and log compactions, which stay."""
    clustering = {partition for partition, _ in view.pending_clustering}
    found: dict[PartitionPath, Resizing] = {}
    for path in sorted(view.partitions()):
        if path in clustering:
            continue
        slices = buckets.by_number(view.latest_slices(path), path)
        sizes = {
            number: slice_.size
            for number, slice_ in slices.items()
            if (path, slice_.file_id) not in busy and slice_.size
        }
        resizing = planned(buckets.ring(path), sizes, limits)
        if resizing is not None:
            found[path] = resizing
    return found


def _splits(write: WriteContext, chosen: Iterable[PartitionPath]) -> dict[tuple[PartitionPath, FileId], Split]:
    """The slices of partitions, to be read with all meta columns."""
    arguments = ScanArguments(partitions=[str(path) for path in chosen], with_keys=True)
    request = ScanRequest.of(Options.resolve({}, Scope.READ), arguments)
    scan = make_scan(write.transaction.state, request)
    return {(PartitionPath(str(split.partition)), FileId(str(split.file_id))): split for split in scan.splits()}


def _rewritten(
    write: WriteContext, ring: HashRing, path: PartitionPath, splits: Sequence[Split]
) -> Iterator[WriteStat]:
    """Writes the rows of slices to the file groups of their new buckets."""
    index = write.settings.index.buckets
    assert index is not None
    handles: dict[int, BaseFileHandle] = {}
    at = write.keyed_schema.get_field_index(FILE_NAME)
    with ExitStack() as opened:
        for batch in (batch for split in splits for batch in read_split_on(write.transaction.storage, split)):
            keys = combined(batch[RECORD_KEY])
            numbers = ring.numbers(keys, index.hashed, index.key_fields)
            for number in np.unique(numbers).tolist():
                if number not in handles:
                    handle = BaseFileHandle(write, path, ring.file_id(number))
                    handles[number] = opened.enter_context(handle)
                handle = handles[number]
                some = batch.select(write.keyed_schema.names).take(pa.array(np.flatnonzero(numbers == number)))
                if at >= 0:
                    name = pa.repeat(pa.scalar(handle.name, pa.string()), some.num_rows)
                    some = some.set_column(at, write.keyed_schema.field(at), name)
                handle.write(some)
                if handle.sidecar is not None:
                    handle.sidecar.add_keys(combined(some[RECORD_KEY]))
        stats = [handle.finish() for handle in handles.values()]
    yield from stats
