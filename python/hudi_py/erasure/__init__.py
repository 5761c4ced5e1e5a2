"""Erases rows from every file of a table: current rows, older versions, indexes, and publications next to it."""

from hudi_py.erasure.plan import plan_erasure
from hudi_py.erasure.report import ErasurePlan, ErasureReport, Trace
from hudi_py.erasure.run import erase

__all__ = ["ErasurePlan", "ErasureReport", "Trace", "erase", "plan_erasure"]
