"""The doctor: examines tables, and repairs them.

`hudi_py.doctor(path)` also works on tables that cannot be opened. See docs/doctor.md.
"""

from hudi_py.health.codes import CODES, Severity
from hudi_py.health.doctor import (
    doctor,
    doctor_of,
    forget_repair,
    repair,
    repair_of,
    repair_plan,
    repairs,
    undo_repair,
)
from hudi_py.health.findings import Diagnosis, Finding
from hudi_py.health.mending.ledger import KeptRepair
from hudi_py.health.mending.plan import RepairPlan, RepairReport

__all__ = [
    "CODES",
    "Diagnosis",
    "Finding",
    "KeptRepair",
    "RepairPlan",
    "RepairReport",
    "Severity",
    "doctor",
    "doctor_of",
    "forget_repair",
    "repair",
    "repair_of",
    "repair_plan",
    "repairs",
    "undo_repair",
]
