"""Points in time from columns, and the texts that stand for them in partition paths."""

from hudi_py.expressions.dates.rule import DateRule

__all__ = ["DateRule"]
