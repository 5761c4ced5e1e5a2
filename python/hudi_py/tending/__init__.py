"""Looks after many tables: finds them, asks each what is due, and does it within a budget. See docs/tending.md."""

from hudi_py.tending.budget import Budget
from hudi_py.tending.report import TendedService, TendedTable, TendReport
from hudi_py.tending.run import tend

__all__ = ["Budget", "TendReport", "TendedService", "TendedTable", "tend"]
