"""Log compaction: many log files of a file slice become one (merge-on-read tables)."""

from hudi_py.services.log_compaction.service import LogCompaction

__all__ = ["LogCompaction"]
