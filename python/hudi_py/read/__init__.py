"""Reads tables: plans, prunes and splits a scan, and reads a split as record batches."""

from hudi_py.read.engines.planned import (
    Pinned,
    PlannedScan,
    pin_table,
    plan_table,
    read_replaced,
    read_splits,
    tasks_of,
)
from hudi_py.read.planning.pin import PlanPin
from hudi_py.read.planning.plan import check_columns
from hudi_py.read.scan import Scan, make_scan
from hudi_py.read.slices.parts import CHUNK_ROWS, REPLACED_SCHEMA, have_distinct_hashes
from hudi_py.read.slices.task import count_splits, is_counted_by_footer, read_split
from hudi_py.read.snapshot import table_schema
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.streams.backlog import BatchLimits, StreamOffset
from hudi_py.read.streams.stream import TableStream

__all__ = [
    "CHUNK_ROWS",
    "REPLACED_SCHEMA",
    "BatchLimits",
    "Pinned",
    "PlanPin",
    "PlannedScan",
    "ReadSpec",
    "Scan",
    "Split",
    "StreamOffset",
    "TableStream",
    "check_columns",
    "count_splits",
    "have_distinct_hashes",
    "is_counted_by_footer",
    "make_scan",
    "pin_table",
    "plan_table",
    "read_replaced",
    "read_split",
    "read_splits",
    "table_schema",
    "tasks_of",
]
