"""What a compaction did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import CompletionTime, InstantTime
from hudi_py.model.words import counted, show_bytes
from hudi_py.services.planned.report import ServiceReport


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(ServiceReport):
    """What a compaction, or a log compaction, did."""

    num_file_groups: int = 0
    num_log_files: int = 0
    """Log files that were merged away."""
    num_rows: int = 0
    """Rows in the new files."""
    num_updated: int = 0
    num_inserted: int = 0
    num_deleted: int = 0
    log_bytes: int = 0
    """Bytes of the log blocks that were merged."""
    written_bytes: int = 0
    """Bytes of the new files."""

    @classmethod
    def of(
        cls, service: str, instant: InstantTime, completion: CompletionTime | None, metadata: CommitMetadata
    ) -> CompactionReport:
        """The report of a completed action."""
        stats = metadata.stats
        logs = [stat.compacted for stat in stats if stat.compacted is not None]
        return cls(
            service,
            instant,
            completion,
            num_file_groups=len(stats),
            num_log_files=sum(log.files for log in logs),
            num_rows=sum(stat.num_writes for stat in stats),
            num_updated=sum(stat.num_updates for stat in stats),
            num_inserted=sum(stat.num_inserts for stat in stats),
            num_deleted=sum(stat.num_deletes for stat in stats),
            log_bytes=sum(log.size for log in logs),
            written_bytes=sum(stat.file_size for stat in stats),
        )

    def _summary(self) -> Iterator[str]:
        if self.instant is None:
            return
        yield counted(self.num_file_groups, "file group")
        yield f"{counted(self.num_log_files, 'log file')} ({show_bytes(self.log_bytes)}) merged"
        changes = {"updated": self.num_updated, "inserted": self.num_inserted, "deleted": self.num_deleted}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in changes.items() if count)
        rows = counted(self.num_rows, "row") + (f" ({kinds})" if kinds else "")
        yield f"{rows}, {show_bytes(self.written_bytes)} written"
