"""Reading: plan, prune, split, and one split to record batches."""

from hudi_py.metadata import METADATA_SCHEMA, metadata_report
from hudi_py.read.filter import Filter, all_of, parse_filter
from hudi_py.read.plan import check_columns
from hudi_py.read.scan import Scan, make_scan
from hudi_py.read.slice import read_slice
from hudi_py.read.snapshot import Snapshot, open_snapshot, table_schema
from hudi_py.read.split import ReadSpec, Split
from hudi_py.read.task import read_split

__all__ = [
    "METADATA_SCHEMA",
    "Filter",
    "ReadSpec",
    "Scan",
    "Snapshot",
    "Split",
    "all_of",
    "check_columns",
    "make_scan",
    "metadata_report",
    "open_snapshot",
    "parse_filter",
    "read_slice",
    "read_split",
    "table_schema",
]
