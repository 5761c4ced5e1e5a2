"""Notes on scans whose time or range probably holds less than was meant. Apache Hudi answers such scans without a word;
hudi-py adds a warning."""

from __future__ import annotations

from hudi_py.model.instant import CommitTimes
from hudi_py.read.request import ScanRequest
from hudi_py.read.snapshot import Snapshot
from hudi_py.timeline.clock import wall_clock_ms
from hudi_py.timeline.times import format_instant, table_zone


def note_on_time(snapshot: Snapshot, *, has_files: bool) -> str | None:
    """A note on a time before the first commit or in the future.

    Args:
        has_files: whether the scan reads any file.
    """
    as_of, timeline = snapshot.as_of, snapshot.timeline
    if as_of is None:
        return None
    times = [instant.time for instant in timeline.write_completed]
    if not times:
        return None if has_files else f"as of {as_of} there are no rows: the table has no commits"
    first, last = min(times), max(times)
    if as_of < first and not has_files:
        return f"as of {as_of} there are no rows: the oldest active commit is {first} (a day means its midnight)"
    now = format_instant(wall_clock_ms(), table_zone(snapshot.config))
    if as_of > max(last, now):
        return f"{as_of} is in the future: the rows are those of now, {now}, which later commits will change"
    return None


def note_on_range(snapshot: Snapshot, request: ScanRequest, text: str, *, by_completion: bool) -> str | None:
    """A note on a range without commits, unless it continues after a commit: then there is simply nothing new.

    Args:
        text: describes the range.
        by_completion: whether its bounds are completion times.
    """
    writes = snapshot.timeline.write_completed
    times = [(instant.completion_time or instant.time) if by_completion else instant.time for instant in writes]
    if isinstance(request.begin, CommitTimes) or request.begin in times:
        return None
    if not times:
        return f"the range ({text}) is empty: the table has no commits"
    kind = "completion" if by_completion else "requested"
    return f"the range ({text}) has no commits: it goes by {kind} times, and the newest commit's is {max(times)}"
