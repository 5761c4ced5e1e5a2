"""Cleaning: deleting file versions that queries no longer need."""

from hudi_py.services.clean.plan import Planned, plan_clean, why_not_due
from hudi_py.services.clean.policy import earliest_to_retain
from hudi_py.services.clean.service import Cleaning, CleanReport

__all__ = [
    "CleanReport",
    "Cleaning",
    "Planned",
    "earliest_to_retain",
    "plan_clean",
    "why_not_due",
]
