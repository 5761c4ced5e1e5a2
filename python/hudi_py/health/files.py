"""Examines data files against commit metadata: missing, damaged, unknown and small files, and logs without
compaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from hudi_py.config import compaction as compaction_config
from hudi_py.config import write as write_config
from hudi_py.errors import CorruptFileError, HudiError, StorageError, UnsupportedTableError, first_line
from hudi_py.formats.base.files import WRITTEN, iter_base_batches, read_footer
from hudi_py.formats.log.blocks import BlockType, LogBlock
from hudi_py.formats.log.reader import read_blocks
from hudi_py.health.facts import Facts, is_data, is_metafile
from hudi_py.health.findings import Finding
from hudi_py.merge.damage import check_first_rows, damage_of
from hudi_py.model.files import FileSlice, LogFile
from hudi_py.model.names import (
    BaseFileName,
    LogFileName,
    PartitionPath,
    nested_partitions,
    parse_base_file_name,
    parse_log_file_name,
)
from hudi_py.model.words import counted, show_bytes
from hudi_py.schema import FILE_NAME
from hudi_py.services.clustering.gain import ClusteringGain, estimate_gain
from hudi_py.services.clustering.plan import ClusteringScope, plan_clustering
from hudi_py.services.compaction.plan import busy_groups
from hudi_py.services.context import with_own_settings
from hudi_py.storage import Storage
from hudi_py.storage.threads import in_threads
from hudi_py.timeline.timeline import load_timeline
from hudi_py.view.bootstrap import METADATA_INSTANT
from hudi_py.view.recorded import describe_loss
from hudi_py.write.index.other_indexes import check_table_index
from hudi_py.write.settings import max_file_size

_MIN_SMALL_FILES: Final = 20
"""Minimum number of small files for a partition to be reported."""
_MAX_LOGS: Final = 50
_WITHOUT_ROWS: Final = (BlockType.CORRUPT, BlockType.COMMAND)
_MAX_LOG_BYTES: Final = 1 << 30
_INTRUDER: Final = "files.intruder"
_STRANGER: Final = "files.stranger"
_WHY: Final = {
    _INTRUDER: "count as committed, but their commit did not write them",
    _STRANGER: "belong to no instant of the timeline",
}
_NAMED: Final = 20
"""Maximum number of paths named in one finding of unknown files."""


def check_files(facts: Facts) -> Iterator[Finding]:
    """Yields findings about committed files that are lost, and files that no commit wrote."""
    yield from _lost_findings(facts)
    yield from _strange_findings(facts)
    yield from _unmarked_findings(facts)
    yield from _nested_findings(facts)


class _Instants:
    """The instants of a table's data files, as known from the timeline and the archive."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._archived = facts.archive[0]
        self._first_archived = min(self._archived, default="~")
        self.known = {instant.time for instant in facts.active.instants}

    def strangeness(self, name: BaseFileName | LogFileName, path: str) -> str | None:
        """Returns the code of a file's problem; None if there is none."""
        start, config, instant = self._facts.active.start, self._facts.table, name.instant
        is_base = isinstance(name, BaseFileName)
        if instant in self.known or instant == METADATA_INSTANT:
            written = self._facts.written.get(instant)
            is_intruder = is_base and written and path not in written and config.version >= 6
            return _INTRUDER if is_intruder else None
        if start is None or instant >= start:
            return _STRANGER
        if instant < self._first_archived or instant in self._archived:
            return None  # committed, or older than the archive reaches
        return _INTRUDER if is_base or config.logs_named_by_instant else _STRANGER


def _lost_findings(facts: Facts) -> Iterator[Finding]:
    view = facts.view
    for partition in view.partitions():
        for file, size in view.lost_files(partition):
            code = "files.missing" if size is None else ("files.short" if size < file.size else "files.replaced")
            yield Finding(
                code,
                describe_loss(file, size),
                instant=file.commit,
                partition=partition,
                paths=(file.path,),
                details={"file_id": str(file.name.file_id), "expected": file.size, "found": size},
            )


def _strange_findings(facts: Facts) -> Iterator[Finding]:
    """Yields data files whose instant is unknown, and base files that count although their commit did not write
    them."""
    strange: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    instants = _Instants(facts)
    for folder in facts.data_folders:
        for info in facts.folders[folder]:
            name = parse_base_file_name(info.name) or parse_log_file_name(info.name)
            if name is not None:
                code = instants.strangeness(name, info.path)
                if code is not None:
                    strange[code, folder, name.instant].append(info.path)
            elif not is_metafile(info):
                others[folder].append(info.path)
    # the storage was listed after the timeline: a write may have begun in between
    now = load_timeline(facts.raw, facts.table).instants if strange else ()
    begun = {instant.time for instant in now} - instants.known
    for (code, folder, instant), paths in sorted(strange.items()):
        if code == _INTRUDER or instant not in begun:
            yield Finding(
                code,
                f"{counted(len(paths), 'file')} of {instant} in partition {folder!r} {_WHY[code]}: {_path_list(paths)}",
                instant=instant,
                partition=folder,
                paths=tuple(paths),
            )
    for folder, paths in sorted(others.items()):
        yield Finding(
            "files.unknown",
            f"{counted(len(paths), 'file')} in partition {folder!r} with other names: {_path_list(paths)}",
            partition=folder,
            paths=tuple(paths),
        )


def _unmarked_findings(facts: Facts) -> Iterator[Finding]:
    """Yields folders with data files but no partition metafile."""
    for folder in facts.data_folders:
        files = facts.folders[folder]
        if any(is_metafile(info) for info in files) or (folder == "" and not facts.table.partition_fields):
            continue
        data = [info.path for info in files if is_data(info)]
        yield Finding(
            "files.no_metafile",
            f"the folder {folder!r} has {counted(len(data), 'data file')} and no partition metafile",
            partition=folder,
        )


def _nested_findings(facts: Facts) -> Iterator[Finding]:
    """Yields partitions with rows that lie in other partitions."""
    view = facts.view
    marked = [folder for folder in facts.data_folders if any(is_metafile(info) for info in facts.folders[folder])]
    for inner, outer in {inner: outer for outer, inner in nested_partitions(marked)}.items():
        if view.latest_slices(PartitionPath(inner)):
            yield Finding(
                "files.nested_partition", f"the partition {inner!r} is inside the partition {outer!r}", partition=inner
            )


def check_contents(facts: Facts) -> Iterator[Finding]:
    """Yields findings about files that cannot be read: footers and log blocks of a sample, or all in a full
    examination."""
    if facts.table.base_file_format not in WRITTEN:
        facts.skipped.append(f"contents of files: base files are {facts.table.base_file_format}")
        return
    view = facts.view
    files: list[tuple[PartitionPath, FileSlice, str, int]] = []
    for partition in view.partitions():
        lost = {file.path for file, _ in view.lost_files(partition)}
        for slice_ in view.latest_slices(partition):
            base = (slice_.base_file,) if slice_.base_file is not None else ()
            for file in (*base, *slice_.log_files):
                if file.path not in lost:
                    files.append((partition, slice_, file.path, file.size))
    step = 1 if facts.full else max(-(-len(files) // facts.limits.files), 1)
    chosen = files[::step]
    facts.progress.phase("reading footers and blocks", files=len(chosen))

    def problem(listed: tuple[PartitionPath, FileSlice, str, int]) -> str:
        return _read_problem(facts, listed[2], listed[3])

    for (partition, slice_, path, _), why in zip(chosen, in_threads(problem, chosen), strict=True):
        if why:
            yield Finding(
                "files.corrupt",
                f"{path} cannot be read: {why}",
                partition=partition,
                paths=(path,),
                details={"file_id": str(slice_.file_id)},
            )
    facts.checked.append(f"contents: {len(chosen):,} of {counted(len(files), 'file')}")


def _read_problem(facts: Facts, path: str, size: int) -> str:
    """Returns why a file cannot be read; empty if it can, or no longer exists."""
    storage = facts.storage
    try:
        if isinstance(parse_base_file_name(path.rpartition("/")[2]), BaseFileName):
            read_footer(storage, path)
            if not path.endswith(".parquet"):  # other footers do not show whose rows they contain
                next(iter_base_batches(storage, path, [FILE_NAME], batch_rows=1), None)
            return ""
        blocks = list(read_blocks(storage, path, size))
        if facts.table.version >= 8 and (damage := _foreign_blocks(storage, path, size, blocks)):
            return first_line(damage)
        check_first_rows(storage, blocks)
        corrupt = [block for block in blocks if block.type is BlockType.CORRUPT]
        # version 6 appends: a torn block stays within the log, and later blocks follow it
        if corrupt and facts.table.logs_named_by_instant:
            return f"{corrupt[0].content_length} bytes from {corrupt[0].content_offset} on form no block"
    except UnsupportedTableError:
        return ""
    except CorruptFileError as error:
        return first_line(error)
    except FileNotFoundError:
        return ""
    finally:
        facts.progress.wrote(size)
    return ""


def _foreign_blocks(storage: Storage, path: str, size: int, blocks: Sequence[LogBlock]) -> CorruptFileError | None:
    """Returns the error for a log file with blocks that its commit did not write; None if there are none."""
    name = parse_log_file_name(path.rpartition("/")[2])
    if name is None:
        return None
    others = [block for block in blocks if block.type not in _WITHOUT_ROWS and block.instant_time != name.instant]
    file = LogFile(PartitionPath(path.rpartition("/")[0]), name, size)
    return damage_of(storage, file, others, None) if others else None


def check_sizes(facts: Facts) -> Iterator[Finding]:
    """Notices about small files, logs waiting and long slices."""
    limit = facts.options.get(write_config.SMALL_FILE_LIMIT)
    most = facts.options.get(compaction_config.MAX_DELTA_COMMITS)
    waiting: dict[PartitionPath, list[FileSlice]] = {}
    tiny: dict[PartitionPath, list[FileSlice]] = {}
    for partition in facts.view.partitions():
        slices = facts.view.latest_slices(partition)
        small = [slice_ for slice_ in slices if slice_.base_file is not None and slice_.base_file.size < limit]
        if len(small) >= _MIN_SMALL_FILES:
            tiny[partition] = small
        with_logs = [slice_ for slice_ in slices if len(slice_.log_files) >= most]
        if with_logs:
            waiting[partition] = with_logs
        for slice_ in slices:
            size = sum(log.size for log in slice_.log_files)
            if len(slice_.log_files) > _MAX_LOGS or size > _MAX_LOG_BYTES:
                yield Finding(
                    "files.long_slice",
                    f"the file group {slice_.file_id} of partition {partition!r} has "
                    f"{counted(len(slice_.log_files), 'log file')} of {show_bytes(size)} over its base file",
                    partition=partition,
                    paths=tuple(log.path for log in slice_.log_files[:_NAMED]),
                    details={"file_id": str(slice_.file_id), "logs": len(slice_.log_files), "bytes": size},
                )
    if tiny:
        yield _small_files_finding(facts, tiny, limit)
    if waiting:
        yield _waiting_logs_finding(waiting, most)


def _small_files_finding(facts: Facts, tiny: Mapping[PartitionPath, list[FileSlice]], limit: int) -> Finding:
    sizes = [slice_.base_file.size for item in tiny.values() for slice_ in item if slice_.base_file is not None]
    worst = max(tiny, key=lambda partition: len(tiny[partition]))
    gain = _gain_of_clustering(facts, tiny)
    then = {} if gain is None else {"files_clustered": gain.files, "files_after": gain.files_after}
    return Finding(
        "files.small",
        f"{counted(len(sizes), 'base file')} in {counted(len(tiny), 'partition')} are below {show_bytes(limit)}, "
        f"{show_bytes(sum(sizes) // len(sizes))} on average; most are in partition {worst!r}, {len(tiny[worst]):,}"
        + ("" if gain is None else f". By a clustering of these partitions, {gain}"),
        details={"files": len(sizes), "partitions": len(tiny), "bytes": sum(sizes), **then},
    )


def _gain_of_clustering(facts: Facts, partitions: Iterable[PartitionPath]) -> ClusteringGain | None:
    """Estimates what a clustering of partitions gains; None if they cannot be clustered."""
    options, view = with_own_settings(facts.options, facts.table), facts.view
    try:
        check_table_index(view)
        busy = busy_groups(facts.storage, facts.active, view, log_compactions=True)
        size = max_file_size(facts.table, options)
        scope = ClusteringScope(sorted(partitions), on_demand=False, busy=busy)
        plan = plan_clustering(view, options, scope, default_size=size, hour=0)
        return estimate_gain(view, options, plan, pa.schema([]), footers=False) if plan.groups else None
    except StorageError:  # not a sign that the table cannot be clustered
        raise
    except HudiError:
        return None


def _waiting_logs_finding(waiting: Mapping[PartitionPath, list[FileSlice]], most: int) -> Finding:
    slices = [slice_ for item in waiting.values() for slice_ in item]
    logs = [log for slice_ in slices for log in slice_.log_files]
    return Finding(
        "files.logs_waiting",
        f"{counted(len(slices), 'file slice')} in {counted(len(waiting), 'partition')} have {most} or more log files, "
        f"{show_bytes(sum(log.size for log in logs))} in all",
        details={"slices": len(slices), "logs": len(logs), "bytes": sum(log.size for log in logs)},
    )


def check_slices(facts: Facts) -> str:
    """Returns why the table's file slices cannot be determined; empty if they can."""
    try:
        facts.view.partitions()
    except StorageError:  # not a sign of damage
        raise
    except (HudiError, FileNotFoundError) as error:
        return first_line(error)
    return ""


def _path_list(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
