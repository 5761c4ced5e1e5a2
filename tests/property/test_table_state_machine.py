"""Random operations, services, indexes and schema changes against a dict, in every form that a table may have."""

from __future__ import annotations

import os
from itertools import product

import pytest

from tests.support.choice import cases, covering
from tests.support.table_machine import INDEXES, Form, check_tables

pytestmark = pytest.mark.slow  # tests/property/test_write_state_machine.py is quick

LOGGED = ("", "op_key_only", "data_before", "data_before_after")
ALL = [
    *product(("cow",), (6, 8, 9), (name for name in INDEXES if name != "HASHES"), ("PARQUET", "ORC"), ("avro",), (True,),
             LOGGED, (False, True)),
    *product(("mor",), (6, 8, 9), INDEXES, ("PARQUET", "ORC"), ("avro", "parquet"), (True, False), LOGGED,
             (False, True)),
]  # fmt: skip
FORMS = [Form(*ALL[at]) for at in sorted(covering(ALL, "table forms"))]
"""They have every pair of values; with another seed, others."""
TABLES, STEPS = (32, 25) if os.environ.get("HUDI_PY_WHOLE") else (3, 15)
"""Of each form. All forms together take more than 20,000 steps in the long run."""


@pytest.mark.parametrize("form", cases(FORMS, "table machine", 3), ids=str)
def test_every_query_agrees_after_each_step(form: Form) -> None:
    check_tables(form, examples=TABLES, steps=STEPS)
