"""Erasing rows on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import hudi_py
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_services import QUICK


def test_erase(cli: Run, trips: Path) -> None:
    asked = ["erase", trips, "--where", "id = '4'"]
    out = cli(*asked, "--dry-run").out
    assert out.startswith("To erase: rows for which id = '4': 1 row of the newest state, 3 versions in 3 data files")
    assert "Would be written again without the rows: 3" in out
    plan = cli(*asked, "--dry-run", "--json").json
    assert (plan["dry_run"], plan["num_rows"], plan["savepoints"], plan["in_the_way"]) == (True, 1, [], [])
    assert "confirm with --yes" in cli(*asked, code=2).err
    saved = cli("savepoint", "create", trips, "--json", *QUICK).json["savepoint"]
    refused = cli(*asked, "--yes", *QUICK, code=4).err
    assert f"the savepoint {saved} keeps files with the rows; delete it (--delete-savepoints); nothing" in refused
    assert hudi_py.open_table(trips).scan(keys=["4"]).count() == 1
    done = cli(*asked, "--delete-savepoints", "--reference", "request 7", "--yes", "--json", *QUICK).json
    assert (done["complete"], done["reference"], done["after"]["traces"]) == (True, "request 7", [])
    assert [step["what"] for step in done["steps"]] == ["delete", "compaction", "savepoint", "clean", "indexes"]
    again = cli("erase", trips, "--keys", "4", "--yes", *QUICK).out
    assert again.startswith("Erasure of rows of 1 key: complete, nothing was to be erased\n")
    assert again.endswith("Nothing of the rows was found.\n")


def test_what_is_left_has_a_code_of_its_own(cli: Run, trips: Path) -> None:
    (trips / "notes").write_text("a note of trip-one")
    hudi_py.open_table(trips).upsert([{"id": "trip-one", "ts": 1, "city": "oslo", "fare": 1.0, "note": None}])
    found = cli("erase", trips, "-k", "trip-one", "--yes", "--json", *QUICK, code=5)
    assert [trace["path"] for trace in json.loads(found.out)["after"]["traces"]] == ["notes"]
    assert "Give either --where or --keys" in cli("erase", trips, code=2).err
