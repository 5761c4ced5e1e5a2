"""The golden set is complete, and what is not compared is counted, so that nothing drops out unseen."""

from __future__ import annotations

from collections import Counter

from tests.golden.expectations import ASKED, BEYOND, refusal
from tests.golden.tables import DATA, load

TABLES = load()


def test_every_table_is_there_with_its_provenance() -> None:
    assert len(TABLES) == 88
    assert {path.name for path in DATA.iterdir() if path.is_dir()} == set(TABLES)
    for table in TABLES.values():
        assert (DATA / table.entry["archive"]).is_file()
        assert (DATA / table.name / "recipe.md").is_file(), "how the table was made is not recorded"
        files = {query.file for query in table.expected if query.file}
        assert {f"expected/{path.name}" for path in (DATA / table.name / "expected").iterdir()} == files


def test_queries_by_kind() -> None:
    counts = Counter(query.kind for table in TABLES.values() for query in table.expected)
    assert counts == {"snapshot": 88, "read_optimized": 55, "time_travel": 264, "incremental": 393, "cdc": 16}
    assert set(counts) == set(ASKED)


def test_entries_of_the_expectations_name_queries() -> None:
    assert BEYOND.keys() <= TABLES.keys()
    for name, beyond in BEYOND.items():
        ids = {query.id for query in TABLES[name].expected}
        assert set(beyond.answered) <= ids, f"{name}: {beyond.answered} are not queries of the set"
        assert any(refusal(query) for query in TABLES[name].expected), f"{name}: no query is refused"
