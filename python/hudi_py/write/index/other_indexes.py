"""Signs that a table is written with an index that this release does not support."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hudi_py.errors import ConfigError
from hudi_py.model.files import FileSlice
from hudi_py.model.names import PartitionPath
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import NewestCommits
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import FileSystemView

_BUCKET_ID = re.compile(r"000\d{5}-")
"""A file id of the bucket index begins with the bucket's number in eight digits. Random ids of eight digits occur (one
in 43), but of those with three zeros first only one in 43,000."""
_BUCKET_FOLDER = ".hoodie/.bucket_index"
"""Where a bucket index with changing numbers of buckets keeps its metadata."""
_CHECKED_PARTITIONS = 3


def check_table_index(storage: Storage, timeline: Timeline, view: FileSystemView) -> None:
    """Refuses a table that is written with the bucket index. Checks a few partitions of the newest write that wrote
    files: the partition being written may be new, and have no file groups yet.

    Raises:
        ConfigError: names the sign.
    """
    if storage.list(_BUCKET_FOLDER):
        raise _other_index("the table", f"it has a folder {_BUCKET_FOLDER}")
    commits = NewestCommits(storage, timeline)
    stats = next((commit.stats for commit in commits if commit.stats), ())
    partitions = list(dict.fromkeys(PartitionPath(stat.partition_path) for stat in stats))
    for partition in partitions[:_CHECKED_PARTITIONS]:
        check_index(view.latest_slices(partition), partition, looks_up_keys=False)


def check_index(slices: Iterable[FileSlice], partition: str, *, looks_up_keys: bool = True) -> None:
    """Refuses a partition that was written by another index, whose keys these ones would not find.

    With `looks_up_keys` False, for rows that are added without a look-up, only the bucket index's sign counts: all of
    its file groups must be buckets.

    Raises:
        ConfigError: says by what sign.
    """
    found = list(slices)
    sign = None
    without_base = next((slice_.file_id for slice_ in found if slice_.base_file is None), None)
    if without_base and looks_up_keys:
        sign = f"file group {without_base} has log files but no base file"
    elif found and all(_BUCKET_ID.match(slice_.file_id) for slice_ in found):
        sign = f"its file ids begin with bucket numbers, as {found[0].file_id} does"
    if sign:
        raise _other_index(f"partition '{partition}'", sign)


def _other_index(what: str, sign: str) -> ConfigError:
    return ConfigError(
        f"Cannot write to {what} with hoodie.index.type=SIMPLE or BLOOM: {sign}, so the table is written with another "
        "index (bucket, for example), which is not supported; write it with Apache Hudi"
    )
