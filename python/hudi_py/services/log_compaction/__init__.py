"""Log compaction: merges the log files of a file slice into one (merge-on-read tables)."""

from hudi_py.services.log_compaction.service import LogCompaction, check_logs_compactable

__all__ = ["LogCompaction", "check_logs_compactable"]
