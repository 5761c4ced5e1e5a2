"""Plans clusterings that change hash buckets (`BaseConsistentHashingBucketClusteringPlanStrategy`, Apache Hudi 1.2.0):
some buckets are split, and neighbours are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hudi_py.config import Options
from hudi_py.config import indexes as indexes_config
from hudi_py.config import write as write_config
from hudi_py.errors import CorruptFileError
from hudi_py.formats.keys.hash_ring import BucketChange, HashRing, decode_changes, encode_changes
from hudi_py.model.files import FileSlice
from hudi_py.model.instant import InstantTime
from hudi_py.model.names import PartitionPath
from hudi_py.services.planned.moves import clustering_codec, planned_group
from hudi_py.storage import Storage
from hudi_py.timeline.clustering_records import ClusteringGroup, ClusteringPlan, decode_clustering_plan
from hudi_py.timeline.plans import FileGroup
from hudi_py.view import FileSystemView
from hudi_py.write.index.bucket import DEFAULT_BUCKETS
from hudi_py.write.index.consistent import ConsistentBuckets

_STRATEGY: Final = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
_PARTITION: Final = "clustering.group.partition"
_CHANGES: Final = "clustering.group.child.node"
_SEQUENCE: Final = "clustering.group.sequence.no"


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """When to split and merge buckets. Sizes are bytes of base file and logs."""

    most: int
    least: int
    split_above: int
    merge_below: int

    @classmethod
    def of(cls, options: Options) -> BucketLimits:
        size, first = options.get(write_config.MAX_FILE_SIZE), options.get(indexes_config.BUCKETS) or DEFAULT_BUCKETS
        most, least = options.get(indexes_config.MAX_BUCKETS), options.get(indexes_config.MIN_BUCKETS)
        return cls(
            most if most > 0 else first,
            least if least > 0 else first,
            int(size * options.get(indexes_config.SPLIT_THRESHOLD)),
            int(size * options.get(indexes_config.MERGE_THRESHOLD)),
        )


@dataclass(frozen=True, slots=True)
class Resizing:
    """The changes to the buckets of a partition, by their numbers."""

    split: tuple[int, ...]
    merged: tuple[tuple[int, ...], ...]
    """Neighbours that are merged, in the order of the ring, whose first bucket follows the last."""


def planned(ring: HashRing, sizes: Mapping[int, int], limits: BucketLimits) -> Resizing | None:
    """Chooses which buckets of a partition to split and merge; None: none.

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
    small = {number: size for number, size in sizes.items() if number not in split and size <= limits.merge_below}
    for number in sorted(small):
        if number not in small:
            continue
        chain = _neighbours_to_merge(number, small, len(ring.ends), surplus, limits.merge_below)
        if len(chain) > 1:
            surplus -= len(chain) - 1
            small = {bucket: size for bucket, size in small.items() if bucket not in chain}
            merged.append(tuple(chain))
    return Resizing(tuple(split), tuple(merged)) if split or merged else None


def _neighbours_to_merge(
    number: int, small: Mapping[int, int], count: int, surplus: int, merge_below: int
) -> list[int]:
    """Returns a bucket and its neighbours on the ring that are merged with it, in their order.

    Args:
        small: bytes of the buckets that may be merged.
        count: number of all buckets.
        surplus: how many buckets fewer there may be.
    """
    chain, total = [number], small[number]
    for step in (-1, 1):
        while len(chain) <= surplus and total <= merge_below:
            near = ((chain[0] if step < 0 else chain[-1]) + step) % count
            if near in chain or near not in small:
                break
            chain = [near, *chain] if step < 0 else [*chain, near]
            total += small[near]
    return chain


def plan_resizing(
    buckets: ConsistentBuckets,
    view: FileSystemView,
    instant: InstantTime,
    options: Options,
    busy: Collection[FileGroup],
) -> ClusteringPlan:
    """Plans a group for each bucket to split, and for each set of neighbours to merge.

    Args:
        busy: file groups of pending compactions and log compactions, which stay. Partitions with a pending clustering
            are left out.
    """
    clustering, limits = {partition for partition, _ in view.pending_clustering}, BucketLimits.of(options)
    default_size = options.get(write_config.MAX_FILE_SIZE)
    groups: list[ClusteringGroup] = []
    for path in sorted(view.partitions()):
        if path in clustering:
            continue
        slices = buckets.by_number(view.latest_slices(path), path)
        sizes = {
            number: slice_.size
            for number, slice_ in slices.items()
            if (path, slice_.file_id) not in busy and slice_.size
        }
        ring = buckets.ring(path)
        resizing = planned(ring, sizes, limits)
        if resizing is None:
            continue
        changes: list[tuple[Sequence[int], Sequence[BucketChange]]] = [
            ((number,), ring.split(instant, number)) for number in resizing.split
        ]
        changes += [(numbers, ring.merged(instant, numbers)) for numbers in resizing.merged]
        groups += (
            _plan_group(view.state.storage, ring, [slices[number] for number in numbers], nodes, default_size)
            for numbers, nodes in changes
        )
    return ClusteringPlan(tuple(groups), _STRATEGY)


def _plan_group(
    storage: Storage, ring: HashRing, slices: Sequence[FileSlice], changes: Sequence[BucketChange], default_size: int
) -> ClusteringGroup:
    extra = {_PARTITION: ring.partition, _CHANGES: encode_changes(changes), _SEQUENCE: str(ring.sequence)}
    new = sum(change.prefix is not None for change in changes)
    return planned_group(storage, slices, new, default_size, extra)


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """The changes that a group of a plan makes to the buckets of a partition."""

    partition: PartitionPath
    sequence: int
    """Sequence number of the buckets when the plan was made."""
    changes: tuple[BucketChange, ...]

    @classmethod
    def of(cls, group: ClusteringGroup) -> BucketGroup | None:
        """Returns the group's changes; None if the group does not belong to consistent hashing. Raises
        CorruptFileError."""
        extra = group.extra or {}
        if _CHANGES not in extra:
            return None
        partition, sequence = extra.get(_PARTITION, ""), extra.get(_SEQUENCE, "0")
        context = f"the clustering plan of partition {partition!r}"
        changes = decode_changes(extra[_CHANGES], context)
        others = {slice_.partition_path for slice_ in group.slices} - {partition}
        if others or not sequence.isdecimal() or all(change.prefix is None for change in changes):
            raise CorruptFileError(f"Cannot read {context}: it has other partitions, or no new hash bucket")
        return cls(PartitionPath(partition), int(sequence), changes)

    @property
    def new(self) -> HashRing:
        """The new buckets alone, as a ring."""
        nodes = sorted((change.end, change.prefix) for change in self.changes if change.prefix is not None)
        ends, prefixes = zip(*nodes, strict=True)
        return HashRing(self.partition, ends, prefixes, len(nodes))


def bucket_groups(plan: ClusteringPlan) -> Iterator[BucketGroup]:
    """Yields the changes of a plan's groups to buckets."""
    for group in plan.groups:
        buckets = BucketGroup.of(group)
        if buckets is not None:
            yield buckets


def changes_buckets(plan: ClusteringPlan) -> bool:
    """Returns whether a plan changes hash buckets."""
    return bool(plan.groups) and len(list(bucket_groups(plan))) == len(plan.groups)


def _decode_plan(data: bytes, context: str) -> ClusteringPlan | None:
    plan = decode_clustering_plan(data, context)
    return plan if plan is not None and changes_buckets(plan) else None


RESIZE_PLANS: Final = clustering_codec(_decode_plan)
