"""Rows are erased from tables that Apache Hudi has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hudi_py

QUICK = {"hoodie.time.generator.max_expected_clock_skew_ms": "1"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_no_mdt",  # the delete makes the metadata table, whose first records have the row
        "v6_mor_record_index",
        "v8_mor_url_encoded",
        "v9_cow_insert_dups",
        "v9_mor_cdc_op_key",
        "v9_mor_upgraded_from_6",
    ],
)
def test_nothing_is_left(name: str, golden_copy: Callable[[str], Path]) -> None:
    table = hudi_py.open_table(golden_copy(name), QUICK)
    keys: list[str] = table.scan(["_hoodie_record_key"]).to_table()["_hoodie_record_key"].to_pylist()
    gone = min(keys)
    report = table.erase(keys=[gone], delete_savepoints=True)
    assert report.complete, str(report)
    assert report.before.traces
    kept = table.scan(["_hoodie_record_key"]).to_table()["_hoodie_record_key"].to_pylist()
    assert sorted(kept) == sorted(key for key in keys if key != gone)
    assert table.metadata.verify().ok
