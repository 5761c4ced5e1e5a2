"""The procedures that show what commits have written (`ShowCommitsProcedure`, `ShowArchivedCommitsProcedure`,
`ShowCommitFilesProcedure`, `ShowCommitPartitionsProcedure`, `ShowCommitWriteStatsProcedure`,
`ShowCommitExtraMetadataProcedure`, `StatsWriteAmplificationProcedure`, Apache Hudi 1.2.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import groupby, islice
from typing import Any, Final

import numpy as np

from hudi_py.errors import ConfigError
from pyspark_hudi.dialect.descriptors import Given, Procedure, Rows, needed
from pyspark_hudi.dialect.tables import Row, StatementTarget

_NEW_FILE: Final = "null"
"""Previous commit in the statistics of a new file (`HoodieWriteStat.NULL_COMMIT`)."""
_MAX_LONG: Final = 2**63 - 1
_OF_FILE: Final = (
    *("partition", "file_id", "previous_commit", "num_writes", "num_inserts", "num_deletes", "num_update_writes"),
    *("total_errors", "total_log_blocks", "total_corrupt_log_blocks", "total_rollback_blocks", "total_log_records"),
    *("total_updated_records_compacted", "total_bytes_written"),
)
_TEXTS: Final = frozenset({"partition", "file_id", "previous_commit"})
_METADATA: Final = "commit_time STRING, state_transition_time STRING, action STRING, " + ", ".join(
    f"{name} {'STRING' if name in _TEXTS else 'BIGINT'}" for name in _OF_FILE
)
_LIMITED: Final = {"table": None, "limit": 10}
_OF_RANGE: Final = {**_LIMITED, "start_ts": "", "end_ts": ""}
_OF_INSTANT: Final = {**_LIMITED, "instant_time": None}


def _by_commit(rows: Sequence[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Yields a row of each commit, and the rows of the files that it wrote."""
    for _, item in groupby(rows, key=lambda row: (row["commit_time"], row["action"])):
        written = list(item)
        yield written[0], [item for item in written if item["file_id"] is not None]


def _column_total(files: Sequence[Row], name: str) -> int:
    return sum(file[name] for file in files)


def _by_file(rows: Sequence[Row]) -> Rows:
    for row in rows:
        if row["file_id"] is not None:
            own = (0 if name == "total_errors" else row[name] for name in _OF_FILE)
            yield row["commit_time"], row["state_transition_time"], row["action"], *own


def _show_commits_metadata(target: StatementTarget, given: Given) -> Rows:
    return islice(_by_file(target.view("written")), given["limit"])


def _archived_commits(target: StatementTarget, given: Given) -> list[Row]:
    """Returns archived commits that were requested in a range: by default one to ten days ago."""
    now = datetime.now()
    bounds = [
        str(given[name] or (now - timedelta(days=days)).strftime("%Y%m%d%H%M%S%f")[:17])
        for name, days in (("start_ts", 10), ("end_ts", 1))
    ]
    rows = target.view("archived")
    return [row for row in rows if bounds[0] <= row["commit_time"] <= bounds[1]]


def _show_archived_commits(target: StatementTarget, given: Given) -> Rows:
    for commit, files in islice(_by_commit(_archived_commits(target, given)), given["limit"]):
        added = sum(file["previous_commit"] == _NEW_FILE for file in files)
        yield (
            commit["commit_time"],
            commit["state_transition_time"],
            _column_total(files, "total_bytes_written"),
            added,
            len(files) - added,
            len({file["partition"] for file in files}),
            _column_total(files, "num_writes"),
            _column_total(files, "num_update_writes"),
            0,
        )


def _show_archived_commits_metadata(target: StatementTarget, given: Given) -> Rows:
    return islice(_by_file(_archived_commits(target, given)), given["limit"])


def _named_commit(target: StatementTarget, given: Given) -> tuple[Row, list[Row]]:
    """Returns the commit that `instant_time` names.

    Raises:
        ConfigError: the active timeline has no completed one.
    """
    instant = needed(given, "instant_time")
    rows = [row for row in target.view("written") if row["commit_time"] == instant]
    if not rows:
        raise ConfigError(
            f"Cannot show the commit {instant} of {target.shown}: the active timeline has no completed commit of this "
            "time; CALL show_commits lists them"
        )
    return next(_by_commit(rows))


def _show_commit_files(target: StatementTarget, given: Given) -> Rows:
    commit, files = _named_commit(target, given)
    for file in files[: given["limit"]]:
        yield (
            commit["action"],
            file["partition"],
            file["file_id"],
            file["previous_commit"],
            file["num_update_writes"],
            file["num_writes"],
            file["total_bytes_written"],
            0,
            file["file_size"],
        )


def _show_commit_partitions(target: StatementTarget, given: Given) -> Rows:
    commit, files = _named_commit(target, given)
    for path in list(dict.fromkeys(file["partition"] for file in files))[: given["limit"]]:
        own = [file for file in files if file["partition"] == path]
        updated = [item for item in own if item["previous_commit"] != _NEW_FILE]
        yield (
            commit["action"],
            path,
            len(own) - len(updated),
            len(updated),
            _column_total(own, "num_inserts"),
            _column_total(updated, "num_update_writes"),
            _column_total(own, "total_bytes_written"),
            0,
        )


def _show_commit_write_stats(target: StatementTarget, given: Given) -> Rows:
    commit, files = _named_commit(target, given)
    size, count = _column_total(files, "total_bytes_written"), _column_total(files, "num_writes")
    average = -(-size // count) if count else _MAX_LONG if size else 0  # Java's result of a division by zero as a long
    return [(commit["action"], size, count, average)][: given["limit"]]


def _show_commit_extra_metadata(target: StatementTarget, given: Given) -> Rows:
    rows = target.view("extra")
    instant = given["instant_time"] or next((row["commit_time"] for row in target.view("written")[:1]), None)
    if given["instant_time"]:
        _named_commit(target, given)  # checks that it exists
    elif instant is None:
        raise ConfigError(f"Cannot show the newest commit of {target.shown}: the active timeline has none")
    key = None if given["metadata_key"] is None else str(given["metadata_key"]).strip()
    extra = [row for row in rows if row["commit_time"] == instant and key in (None, row["metadata_key"])]
    for row in extra[: given["limit"]]:
        yield row["commit_time"], row["action"], row["metadata_key"], row["metadata_value"]


def _stats_wa(target: StatementTarget, given: Given) -> Rows:
    rows = [row for row in target.view("written") if row["action"] != "deltacommit"]
    result: list[tuple[Any, ...]] = []
    for commit, files in reversed(list(_by_commit(rows))):
        result.append(
            (commit["commit_time"], _column_total(files, "num_update_writes"), _column_total(files, "num_writes"))
        )
    result.append(("Total", sum(item[1] for item in result), sum(item[2] for item in result)))
    return [(*item, _amplification_text(item[2], item[1])) for item in result][: given["limit"]]


def _amplification_text(written: int, upserted: int) -> str:
    """Formats a float as Java's DecimalFormat("#.00")."""
    if upserted <= 0:
        return "0"
    ratio = Decimal(float(np.float32(written) / np.float32(upserted)))
    text = str(ratio.quantize(Decimal("0.01"), ROUND_HALF_EVEN))
    return text.removeprefix("0") if text.startswith("0.") else text


def _of_instant(columns: str, run: Callable[[StatementTarget, Given], Rows]) -> Procedure:
    return Procedure(_OF_INSTANT, columns, run)


COMMIT_PROCEDURES: Final = {
    "show_commits_metadata": Procedure(_LIMITED, _METADATA, _show_commits_metadata),
    "show_archived_commits": Procedure(
        _OF_RANGE,
        "commit_time STRING, state_transition_time STRING, total_bytes_written BIGINT, total_files_added BIGINT, "
        "total_files_updated BIGINT, total_partitions_written BIGINT, total_records_written BIGINT, "
        "total_update_records_written BIGINT, total_errors BIGINT",
        _show_archived_commits,
    ),
    "show_archived_commits_metadata": Procedure(_OF_RANGE, _METADATA, _show_archived_commits_metadata),
    "show_commit_files": _of_instant(
        "action STRING, partition_path STRING, file_id STRING, previous_commit STRING, total_records_updated BIGINT, "
        "total_records_written BIGINT, total_bytes_written BIGINT, total_errors BIGINT, file_size BIGINT",
        _show_commit_files,
    ),
    "show_commit_partitions": _of_instant(
        "action STRING, partition_path STRING, total_files_added BIGINT, total_files_updated BIGINT, "
        "total_records_inserted BIGINT, total_records_updated BIGINT, total_bytes_written BIGINT, total_errors BIGINT",
        _show_commit_partitions,
    ),
    "show_commit_write_stats": _of_instant(
        "action STRING, total_bytes_written BIGINT, total_records_written BIGINT, avg_record_size BIGINT",
        _show_commit_write_stats,
    ),
    "show_commit_extra_metadata": Procedure(
        {"table": None, "limit": 100, "instant_time": None, "metadata_key": None},
        "instant_time STRING, action STRING, metadata_key STRING, metadata_value STRING",
        _show_commit_extra_metadata,
    ),
    "stats_wa": Procedure(
        _LIMITED,
        "commit_time STRING, total_upserted BIGINT, total_written BIGINT, write_amplification_factor STRING",
        _stats_wa,
    ),
}
