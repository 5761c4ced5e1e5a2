"""Packs what `make_tables.py` made, and asks Apache Hudi 1.2.0 the same queries; see README.md.

tools/run python -m tests.golden.old.pack_tables FOLDER [NAME ...]
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_py.testing.rows import assert_rows_equal
from tests.oracle.client import Oracle, OracleError

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.json"


def query_of(kind: str) -> dict[str, Any]:
    """A query's parameters from its name, as the manifest and the oracle have them."""
    name, _, at = kind.rpartition("_")
    if name == "time_travel":
        return {"kind": name, "as_of": at}
    if name == "incremental":
        return {"kind": name, "begin": at}
    return {"kind": kind}


def asked(query: dict[str, Any]) -> dict[str, Any]:
    """The oracle's arguments for a query."""
    arguments = {key: value for key, value in query.items() if key != "kind"}
    return arguments if arguments else {"query_type": query["kind"]}


def same(actual: Any, expected: Any) -> bool:
    try:
        assert_rows_equal(actual, expected)
    except AssertionError as difference:
        print("   ", str(difference)[:1500])
        return False
    return True


def pack(oracle: Oracle, made: Path) -> dict[str, Any]:
    """One table: its archive, expected rows and recipe below this folder; its entry of the manifest."""
    info = json.loads((made / "made.json").read_text())
    name = info["name"]
    target = HERE / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with tarfile.open(target / "table.tar.gz", "w:gz", compresslevel=9) as archive:
        archive.add(
            made / name, name, filter=lambda member: None if member.name.endswith(".crc") else anonymous(member)
        )
    lines = (made / name / ".hoodie" / "hoodie.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    expected = []
    answers = []
    for number, (kind, own) in enumerate(info["own"].items()):
        query = query_of(kind)
        own_rows = pq.read_table(made / "own" / f"{kind}.parquet") if own == "rows" else None
        entry: dict[str, Any] = {**query, "own": own if own_rows is None else "rows"}
        try:
            rows = oracle.read(made / name, **asked(query))
            entry["by"] = "1.2.0"
            if own_rows is not None:
                entry["own"] = "same rows" if same(own_rows, rows) else "other rows"
        except OracleError as error:
            print("   ", kind, str(error)[:2500])
            entry["newest"] = "error: " + str(error).splitlines()[0][:200]
            rows, entry["by"] = own_rows, info["release"]
        if rows is not None:
            entry["query"] = number
            entry["rows"] = rows.num_rows
            answers.append(rows.append_column("query", pa.array([number] * rows.num_rows, pa.int32())))
        print(name, entry, flush=True)
        expected.append(entry)
    kept = pa.concat_tables(answers, promote_options="default").replace_schema_metadata(None)
    pq.write_table(kept, target / "expected.parquet", compression="zstd", write_statistics=False, store_schema=False)
    recipe = [
        f"# {name}",
        "",
        f"Written by Apache Hudi {info['release']}; each step is one action.",
        "",
        "Options:",
        "",
    ]
    recipe += [f"- `{key}={value}`" for key, value in sorted(info["options"].items())]
    recipe += ["", "Rows are `id, ts, name, price, city, _hoodie_is_deleted` where not said otherwise. Steps:", ""]
    recipe += [f"{number}. {step}" for number, step in enumerate(info["steps"], 1)]
    (target / "recipe.md").write_text("\n".join(recipe) + "\n")
    return {
        "name": name,
        "writer": f"Apache Hudi {info['release']}",
        "table_version": int(properties["hoodie.table.version"]),
        "timeline_layout": int(properties["hoodie.timeline.layout.version"]),
        "table_type": properties["hoodie.table.type"],
        "expected": expected,
    }


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    entries = {entry["name"]: entry for entry in json.loads(MANIFEST.read_text())} if MANIFEST.exists() else {}
    with contextlib.closing(Oracle()) as oracle:
        for made in sorted(folder.iterdir()):
            if (made / "made.json").exists() and (not names or made.name in names):
                entries[made.name] = pack(oracle, made)
                # a line for each table
                lines = [json.dumps(entries[name], separators=(",", ":")) for name in sorted(entries)]
                MANIFEST.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
