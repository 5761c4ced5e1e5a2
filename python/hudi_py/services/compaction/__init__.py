"""Compaction: base files and their logs become new base files (merge-on-read tables)."""

from hudi_py.services.compaction.rewrite import RewriteTask, Rewritten, check_compactable
from hudi_py.services.compaction.service import Compaction, CompactionReport

__all__ = ["Compaction", "CompactionReport", "RewriteTask", "Rewritten", "check_compactable"]
