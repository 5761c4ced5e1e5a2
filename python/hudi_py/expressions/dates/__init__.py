"""Converts columns to points in time, and these to the text of partition paths."""

from hudi_py.expressions.dates.rule import DateRule

__all__ = ["DateRule"]
