"""Recognises tables that are written with another index than the one in the options."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hudi_py.errors import ConfigError
from hudi_py.model.files import FileSlice
from hudi_py.model.layout import BUCKET_INDEX, BUCKET_RULES, HASHING_METADATA
from hudi_py.model.names import PartitionPath
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import NewestCommits
from hudi_py.view import FileSystemView
from hudi_py.write.index.bucket import Buckets
from hudi_py.write.index.consistent import ConsistentBuckets

_BUCKET_ID = re.compile(r"000\d{5}-")
"""A file id of the bucket index begins with the bucket's number in eight digits. Random ids of eight digits occur (one
in 43), but of those with three zeros first only one in 43,000."""
"""The folder in which a bucket index with changing numbers of buckets keeps its metadata."""
_CHECKED_PARTITIONS = 3


def check_table_index(view: FileSystemView, buckets: Buckets | None = None) -> None:
    """Refuses a table that is written with the bucket index or, given `buckets`, one that is not or that has other
    buckets. Checks a few partitions of the newest write that wrote files: the partition being written may be new, and
    have no file groups yet.

    Raises:
        ConfigError: names the sign.
    """
    check_folder(view.state.storage, buckets)
    commits = NewestCommits(view.state)
    stats = next((commit.stats for commit in commits if commit.stats), ())
    written: dict[PartitionPath, list[str]] = {}
    for stat in stats:
        written.setdefault(PartitionPath(stat.partition_path), []).append(stat.file_id)
    for partition, file_ids in list(written.items())[:_CHECKED_PARTITIONS]:
        if buckets is None and not all(map(_BUCKET_ID.match, file_ids)):
            continue  # other file groups of the partition need not be listed
        slices = view.latest_slices(partition)
        if buckets is None:
            check_index(slices, partition, looks_up_keys=False)
        else:
            buckets.check_keys(buckets.by_number(slices, partition))


def check_folder(storage: Storage, buckets: Buckets | None) -> None:
    """Refuses a table with the folder of a bucket index unless `buckets` are of that kind.

    Raises:
        ConfigError: names the folder.
    """
    folders = [info.name for info in storage.list(BUCKET_INDEX)]
    if not folders:
        return
    sign = f"it has a folder {BUCKET_INDEX}"
    if buckets is None:
        raise _other_index("the table", sign)
    unknown = set(folders) - {_index_name(HASHING_METADATA), _index_name(BUCKET_RULES)}
    if unknown:
        raise ConfigError(
            f"Cannot write to the table with hoodie.index.type=BUCKET: {sign} with {', '.join(sorted(unknown))}, which "
            "is of an unknown kind of buckets: write it with Apache Hudi"
        )
    if _index_name(BUCKET_RULES) in folders and isinstance(buckets, ConsistentBuckets):
        raise ConfigError(
            "Cannot write to the table with hoodie.index.bucket.engine=CONSISTENT_HASHING: it has a folder "
            f"{BUCKET_RULES}, so its buckets are those of the simple bucket index; leave the option out"
        )
    if _index_name(HASHING_METADATA) in folders and not isinstance(buckets, ConsistentBuckets):
        raise ConfigError(
            "Cannot write to the table with hoodie.index.type=BUCKET and hoodie.index.bucket.engine=SIMPLE: it has a "
            f"folder {HASHING_METADATA}, so its buckets are those of consistent hashing; set "
            "hoodie.index.bucket.engine=CONSISTENT_HASHING"
        )


def _index_name(folder: str) -> str:
    return folder.rpartition("/")[2]


def check_index(slices: Iterable[FileSlice], partition: str, *, looks_up_keys: bool = True) -> None:
    """Refuses a partition that was written with another index, whose keys the given one would not find.

    With `looks_up_keys` False, for rows that are added without a look-up, only the bucket index's sign counts: all of
    its file groups must be buckets.

    Raises:
        ConfigError: says by what sign.
    """
    listed = list(slices)
    sign = None
    without_base = next((slice_.file_id for slice_ in listed if slice_.base_file is None), None)
    if without_base and looks_up_keys:
        sign = f"file group {without_base} has log files but no base file"
    elif listed and all(_BUCKET_ID.match(slice_.file_id) for slice_ in listed):
        sign = f"its file ids begin with bucket numbers, as {listed[0].file_id} does"
    if sign:
        raise _other_index(f"partition '{partition}'", sign)


def _other_index(what: str, sign: str) -> ConfigError:
    return ConfigError(
        f"Cannot write to {what} with hoodie.index.type=SIMPLE or BLOOM: {sign}, so the table is written with another "
        "index; if it is the bucket index, set hoodie.index.type=BUCKET, and hoodie.bucket.index.num.buckets to the "
        "number of buckets that the table was created with"
    )
