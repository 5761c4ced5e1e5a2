"""What this release does not answer yet of the golden set: the one list, for tests and docs/compatibility.md's matrix.

A query listed here must be refused with `UnsupportedTableError` before any row is returned. A wrong answer, another
error, or an answer (then the entry is out of date) fails the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tests.golden.tables import Expected, load

SNAPSHOT: Final = "snapshot"
READ_OPTIMIZED: Final = "read_optimized"
TIME_TRAVEL: Final = "time_travel"
INCREMENTAL: Final = "incremental"
CDC: Final = "cdc"

# Kinds of queries that are asked of every table.
ASKED: Final = (SNAPSHOT, READ_OPTIMIZED, TIME_TRAVEL, INCREMENTAL, CDC)


@dataclass(frozen=True, slots=True)
class Beyond:
    """Why queries of a table are refused; those of other kinds, and those in `answered`, are answered nevertheless."""

    reason: str
    kinds: tuple[str, ...] = (SNAPSHOT, TIME_TRAVEL)
    answered: tuple[str, ...] = ()


# Kinds that a table does not have in the set (read_optimized of copy-on-write tables) may be named all the same.
# A read-optimized query merges nothing, so merge modes do not matter to it; nor do they where no slice has logs, as at
# the first instant of some tables (`answered`).
BEYOND: Final[Mapping[str, Beyond]] = {}


# Tables of which a log file was cut after it was written. Apache Hudi passes over what a completed commit wrote there;
# hudi-py refuses to, and gives the same rows with the option.
DAMAGED: Final = frozenset({"v6_mor_torn_log", "v9_mor_torn_log"})
READ_DAMAGED: Final = "hoodie.py.read.damaged"


def options_of(query: Expected) -> dict[str, str]:
    """Options without which the query is refused."""
    return {READ_DAMAGED: "true"} if query.table in DAMAGED else {}


def refusal(query: Expected) -> str | None:
    """Why this query is refused; None when it is answered."""
    beyond = BEYOND.get(query.table)
    if beyond is None or query.kind not in beyond.kinds or query.id in beyond.answered:
        return None
    return beyond.reason


# Apache Hudi 1.2.0 merges the log blocks of a range without the base file before it. Of partial updates this yields
# bytes of other columns, here texts which are not even UTF-8. hudi-py merges them over the base file: the rows which
# Apache Hudi itself shows as of the instant named, as far as commits of the range wrote them.
WITHOUT_BASE: Final[Mapping[str, str]] = {
    "v9_mor_merge_into_partial-incremental-20261121015410307-20261121015415152": "20261121015414007"
}


def corrected(query: Expected) -> pa.Table:
    """The expected rows; those that were written where Apache Hudi shows bytes of other columns."""
    if query.id in WITHOUT_BASE:
        table = load()[query.table]
        at_end = next(other for other in table.expected if other.as_of == WITHOUT_BASE[query.id]).rows()
        completed = {instant["requested"]: instant["completed"] for instant in table.entry["instants"]}
        times = [time for time, completion in completed.items() if query.begin < completion <= query.end]
        return at_end.filter(pc.is_in(at_end["_hoodie_commit_time"], value_set=pa.array(times)))
    return query.rows()


def asked() -> list[Expected]:
    """Every query of the kinds that this release has, of every table."""
    return [query for table in load().values() for query in table.expected if query.kind in ASKED]
