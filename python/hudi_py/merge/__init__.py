"""Decides which version of a record wins: within a log, over a base file, and within a write's input."""

from hudi_py.merge.base import merge_with_base
from hudi_py.merge.incoming import reduce_input
from hudi_py.merge.merger import MergedRows, RecordMerger, choose_rows
from hudi_py.merge.records import LogRecords, reduce_versions
from hudi_py.merge.reduce import Versions, Winners, delete_marks, find_winners
from hudi_py.merge.settings import MergeSettings, merge_settings
from hudi_py.merge.slice_log import CommittedInstants, LogSpec, SliceLog, scan_log
from hudi_py.merge.spill import LogMemory, SpilledLog

__all__ = [
    "CommittedInstants",
    "LogMemory",
    "LogRecords",
    "LogSpec",
    "MergeSettings",
    "MergedRows",
    "RecordMerger",
    "SliceLog",
    "SpilledLog",
    "Versions",
    "Winners",
    "choose_rows",
    "delete_marks",
    "find_winners",
    "merge_settings",
    "merge_with_base",
    "reduce_input",
    "reduce_versions",
    "scan_log",
]
