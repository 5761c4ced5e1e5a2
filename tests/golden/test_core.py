"""The core reads every golden table as Apache Hudi does."""

from __future__ import annotations

from typing import Any

import pytest

import hudi_py
from hudi_py.testing.rows import assert_rows_equal
from tests.golden.expectations import DAMAGED, asked, corrected, options_of, refusal
from tests.golden.tables import Expected, Extracted
from tests.support.choice import every


def parameters() -> list[Any]:
    """One parameter set per query, of which every third is quick; refused ones are strict expected failures, and only
    by the error for it."""
    queries = asked()
    quick = {queries[at].id for at in every(3, len(queries))}
    found = []
    for query in queries:
        reason = refusal(query)
        marks = [pytest.mark.xfail(strict=True, raises=hudi_py.UnsupportedTableError, reason=reason)] if reason else []
        if query.table in DAMAGED:
            marks.append(pytest.mark.filterwarnings("ignore:Rows are missing or old"))
        if query.id not in quick:
            marks.append(pytest.mark.slow)
        found.append(pytest.param(query, id=query.id, marks=marks))
    return found


def scan(path: str, query: Expected) -> hudi_py.Scan:
    """The query as a scan of the core."""
    table = hudi_py.open_table(path, options_of(query))
    if query.as_of:
        return table.scan(as_of=query.as_of)
    return table.scan(query_type=query.kind, begin=query.begin, end=query.end)


@pytest.mark.parametrize("query", parameters())
def test_rows_are_those_of_apache_hudi(golden: Extracted, query: Expected) -> None:
    path = str(golden(query.table))
    if query.error is not None:
        # The errors in the set: a time of which files were cleaned, and ranges without the meta fields.
        error = hudi_py.HistoryCleanedError if query.as_of else hudi_py.UnsupportedTableError
        with pytest.raises(error, match=str(query.as_of) if query.as_of else "meta fields"):
            scan(path, query).to_table()
        return
    expected = corrected(query)
    actual = scan(path, query)
    rows = actual.to_table()
    assert rows.schema.equals(actual.schema), "the rows' schema is not the one that the scan announced"
    assert_rows_equal(rows, expected)
    assert rows.column_names == expected.column_names, "the columns are not in the table's order"
    assert actual.count() == expected.num_rows


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_a_log_that_was_cut_is_refused_without_the_option(golden: Extracted, name: str) -> None:
    path = str(golden(name))
    with pytest.raises(hudi_py.CorruptFileError, match=r"\.log\.\d_.* wrote, has \d+ of its \d+ bytes"):
        hudi_py.open_table(path).scan().to_table()
    with pytest.warns(UserWarning, match="Rows are missing or old"):
        hudi_py.open_table(path, {"hoodie.py.read.damaged": "true"}).scan().to_table()
