"""The procedures that show file slices and sizes of files (`ShowFileSystemViewProcedure`, `StatsFileSizeProcedure`,
Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hudi_py.errors import ConfigError
from hudi_py.inspect.procedures.shown import (
    EVERYWHERE,
    Given,
    Opened,
    Rows,
    Shown,
    chosen_partitions,
    columns,
    data_files,
    limited,
    shown_path,
    text_of,
)
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.instant import Action
from hudi_py.timeline.timeline import Timeline
from hudi_py.view import load_view
from hudi_py.view.filesystem_view import FileSystemView

_NO_RATIO: Final = -1.0
"""The ratio shown for a slice without a base file."""


def _chosen_view(table: Opened, given: Given) -> FileSystemView:
    """Returns the files of the commits that the parameters choose.

    Raises:
        ConfigError: those of pending ones are asked for.
    """
    if given["include_in_flight"]:
        raise ConfigError(
            f"Cannot show files of pending instants of {table.storage.uri}: include_in_flight => true is not "
            "supported; CALL show_timeline shows which are pending, the call without it the files of completed ones"
        )
    return load_view(table.state.at(_timeline_until(table, given)), read_damaged=True)


def _timeline_until(table: Opened, given: Given) -> Timeline:
    timeline, last = table.timeline, text_of(given, "max_instant")
    kept = timeline.files
    if last:
        kept = tuple(item for item in kept if item.time < last or (given["include_max"] and item.time == last))
    if given["exclude_compaction"]:
        kept = tuple(item for item in kept if item.action is not Action.COMPACTION)
    return timeline if kept == timeline.files else Timeline(timeline.layout, kept, timeline.start)


def _log_text(table: Opened, log: LogFile) -> str:
    return f"HoodieLogFile(pathStr={shown_path(table, log.path)}, fileSize={log.size})"


def _slice_head(table: Opened, slice_: FileSlice) -> tuple[Any, ...]:
    base = slice_.base_file
    return (
        slice_.partition,
        slice_.file_id,
        slice_.base_instant,
        "" if base is None else shown_path(table, base.path),
        0 if base is None else base.size,
        len(slice_.log_files),
        sum(log.size for log in slice_.log_files),
    )


def _all_slices(table: Opened, given: Given) -> Rows:
    """Lists slices by partition and file id, the newest slice of a group first."""
    view = _chosen_view(table, given)
    slices = (
        slice_
        for path in chosen_partitions(table, text_of(given, "path_regex"))
        for slice_ in sorted(view.every_slice(path), key=lambda item: item.base_instant, reverse=True)
        if (path, slice_.file_id) not in view.replaced
    )
    ordered = _by_group(slices)
    for slice_ in islice(ordered, limited(given)):
        logs = [_log_text(table, log) for log in reversed(slice_.log_files)]
        yield (*_slice_head(table, slice_), f"[{', '.join(logs)}]")


def _by_group(slices: Iterator[FileSlice]) -> list[FileSlice]:
    return sorted(slices, key=lambda slice_: (slice_.partition, slice_.file_id))  # the order within a group stays


def _latest_slices(table: Opened, given: Given) -> Rows:
    """Lists slices by partition and file id; with `merge`, includes the logs before and after a pending compaction."""
    patterns = [text_of(given, name) for name in ("path_regex", "partition_path")]
    chosen = [pattern for pattern in patterns if pattern not in ("", EVERYWHERE)]
    if len(chosen) > 1:
        raise ConfigError(
            f"Cannot show file slices of path_regex => '{chosen[0]}' and of partition_path => '{chosen[1]}'; give one "
            "of them"
        )
    view = _chosen_view(table, given)
    slices = (
        slice_
        for path in chosen_partitions(table, chosen[0] if chosen else "")
        for slice_ in (view.latest_slices(path) if given["merge"] else view.latest_slices_for_write(path))
        if slice_.base_file is not None or slice_.log_files
    )
    for slice_ in islice(slices, limited(given)):
        base = slice_.base_file
        size = sum(log.size for log in slice_.log_files)
        ratios = (size / base.size, 0.0) if base is not None and base.size else (_NO_RATIO, _NO_RATIO)
        own: list[str] = []
        others: list[str] = []
        for log in reversed(slice_.log_files):
            (own if log.name.instant == slice_.base_instant else others).append(_log_text(table, log))
        # all logs of a slice belong to completed commits
        yield (*_slice_head(table, slice_), size, 0, *ratios, f"[{','.join(own)}]", f"[{','.join(others)}]")


def _show_sizes(table: Opened, given: Given) -> Rows:
    """Returns sizes by instant, oldest first, then over all files."""
    result: dict[str, list[int]] = defaultdict(list)
    for path in chosen_partitions(table, text_of(given, "partition_path")):
        for instant, info in data_files(table, path):
            result[instant].append(info.size)
    rows = [(instant, *_size_histogram(result[instant])) for instant in sorted(result)]
    rows.append(("ALL", *_size_histogram([size for sizes in result.values() for size in sizes])))
    return islice(rows, limited(given))


def _size_histogram(sizes: Sequence[int]) -> tuple[Any, ...]:
    """Computes a histogram as `com.codahale.metrics.UniformSnapshot` does."""
    values = np.sort(np.array(sizes, dtype=np.float64))
    if not len(values):
        return 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0
    low, middle, high = (_size_quantile(values, share) for share in (0.1, 0.5, 0.95))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return int(values[0]), low, middle, float(values.mean()), high, int(values[-1]), len(values), deviation


def _size_quantile(values: npt.NDArray[np.float64], share: float) -> float:
    place = share * (len(values) + 1)
    position = int(place)
    if position < 1:
        return float(values[0])
    if position >= len(values):
        return float(values[-1])
    return float(values[position - 1] + (place - position) * (values[position] - values[position - 1]))


_VIEW: Final = {
    "table": None,
    "path": None,
    "max_instant": "",
    "include_max": False,
    "include_in_flight": False,
    "exclude_compaction": False,
    "limit": 10,
    "path_regex": EVERYWHERE,
    "filter": "",
}
_SLICE: Final = (
    "partition text, file_id text, base_instant text, data_file text, data_file_size long, num_delta_files long, "
    "total_delta_file_size long, "
)
PROCEDURES: Final = {
    "show_fsview_all": Shown(_VIEW, columns(f"{_SLICE}delta_files text"), _all_slices),
    "show_fsview_latest": Shown(
        {**_VIEW, "partition_path": EVERYWHERE, "merge": True},
        columns(
            f"{_SLICE}delta_size_compaction_scheduled long, delta_size_compaction_unscheduled long, "
            "delta_to_base_radio_compaction_scheduled double, delta_to_base_radio_compaction_unscheduled double, "
            "delta_files_compaction_scheduled text, delta_files_compaction_unscheduled text"
        ),
        _latest_slices,
    ),
    "stats_file_sizes": Shown(
        {"table": None, "partition_path": "", "limit": 10},
        columns(
            "commit_time text, min long, 10th double, 50th double, avg double, 95th double, max long, num_files int, "
            "std_dev double"
        ),
        _show_sizes,
    ),
}
