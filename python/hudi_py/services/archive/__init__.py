"""Archiving: moves completed instants from the active timeline to the archived one."""

from hudi_py.services.archive.select import Selection
from hudi_py.services.archive.service import ArchiveReport, archive, may_be_due, preview_archive

__all__ = ["ArchiveReport", "Selection", "archive", "may_be_due", "preview_archive"]
