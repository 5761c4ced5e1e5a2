"""`Table.alter`: every change against a model, what is stored, and what is refused."""

from __future__ import annotations

import json
import os
import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.errors import ConfigError, ConflictError, SchemaMismatchError, TableNotFoundError
from hudi_py.schema import META_FIELDS
from hudi_py.storage import open_storage
from hudi_py.table import Table
from hudi_py.timeline.metadata import read_commit_metadata
from hudi_py.timeline.properties import load_table_config, update_table_config
from tests.support.choice import cases

ON_READ = {"hoodie.schema.on.read.enable": "true"}
LONG = 60
PLAIN = {"hoodie.metadata.enable": "false"}
NULLS = {"hoodie.write.set.null.for.missing.columns": "true"}
STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "name": ["a", "b", "c"],
        "n": pa.array([1, 2, None], pa.int32()),
        "s": pa.array(
            [{"x": 1, "y": "q"}, None, {"x": 3, "y": None}], pa.struct([("x", pa.int32()), ("y", pa.string())])
        ),
        "ts": [1, 1, 1],
        "city": ["oslo", "oslo", "lima"],
    }
)


def make(name: str, kind: str = "cow", version: int = 9, options: dict[str, str] | None = None) -> Table:
    path, given = f"memory:alter/{name}", {**PLAIN, **(options or {})}
    keys = {"record_key": "id", "ordering_by": "ts", "partition_by": "city"}
    hudi_py.write(path, ROWS, options=given, table_type=kind, table_version=version, **keys)
    return hudi_py.open_table(path, given)


def rows(table: Table, **arguments: Any) -> list[dict[str, Any]]:
    found = table.scan(**arguments).to_table()
    own = found.drop_columns([name for name in META_FIELDS if name in found.schema.names])
    return sorted(own.to_pylist(), key=lambda row: row["id"])


def names(table: Table) -> list[str]:
    return [name for name in table.schema.names if name not in META_FIELDS]


def extra(table: Table) -> dict[str, str]:
    """The extra metadata of the newest commit."""
    timeline = table.timeline
    return dict(read_commit_metadata(table._storage, timeline.layout, timeline.write_completed[-1]).extra)


# ---- against a model


class Model:
    """Columns in order, with their types, and rows by id; members of structs have dotted names."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.types: dict[str, str] = {"id": "long", "a": "int", "s.x": "int", "s.y": "string", "ts": "long"}
        self.rows: dict[int, dict[str, Any]] = {}
        self.ts = 0
        self.fresh = 0

    @property
    def free(self) -> list[str]:
        return [name for name in self.types if name not in ("id", "ts")]

    def top(self) -> list[str]:
        return list(dict.fromkeys(name.partition(".")[0] for name in self.types))

    def ordered(self) -> None:
        """Members stand where their struct stands."""
        top = self.top()
        self.types = dict(sorted(self.types.items(), key=lambda item: top.index(item[0].partition(".")[0])))

    def new_name(self) -> str:
        """Sometimes one that a dropped or renamed column had."""
        while True:
            self.fresh += 1
            name = self.choose.choice("abcdefgh") + (str(self.fresh) if self.choose.random() < 0.3 else "")
            if name not in self.top() and name not in (each.rpartition(".")[2] for each in self.types):
                return name

    def renamed(self, old: str, new: str) -> None:
        self.types = {new if name == old else name: kind for name, kind in self.types.items()}
        for row in self.rows.values():
            if old in row:
                row[new] = row.pop(old)

    def value(self, kind: str) -> Any:
        if self.choose.random() < 0.15:
            return None
        number = self.choose.randrange(1000)
        return {"string": f"t{number}", "double": number / 4, "int": number, "long": number * 10**10}[kind]

    def arrow(self) -> pa.Schema:
        kinds = {"string": pa.string(), "double": pa.float64(), "int": pa.int32(), "long": pa.int64()}
        fields = []
        for name in self.top():
            members = [
                (each[len(name) + 1 :], kinds[kind]) for each, kind in self.types.items() if each.startswith(f"{name}.")
            ]
            fields.append(pa.field(name, pa.struct(members) if members else kinds[self.types[name]]))
        return pa.schema(fields)

    def nested(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.types:
            head, _, member = name.partition(".")
            if member:
                found.setdefault(head, {})[member] = row.get(name)
            else:
                found[name] = row.get(name)
        return found

    def expected(self) -> list[dict[str, Any]]:
        return [self.nested(self.rows[at]) for at in sorted(self.rows)]


def step(model: Model, table: Table) -> None:
    choose, free = model.choose, model.free
    what = choose.choice(
        ("upsert", "upsert", "upsert", "delete", "add", "add", "member", "rename", "drop", "type", "move", "compact")
    )
    if what == "upsert":
        model.ts += 1
        ids = choose.sample(range(12), 4)
        for at in ids:
            model.rows[at] = {name: model.value(kind) for name, kind in model.types.items()} | {
                "id": at,
                "ts": model.ts,
            }
        given = pa.Table.from_pylist([model.nested(model.rows[at]) for at in ids], model.arrow())
        table.upsert(given)
    elif what == "delete" and model.rows:
        at = choose.choice(list(model.rows))
        del model.rows[at]
        table.delete(f"id = {at}")
    elif what == "add":
        name, kind = model.new_name(), choose.choice(("int", "string", "double"))
        model.types[name] = kind
        table.alter(add={name: {"int": pa.int32(), "string": pa.string(), "double": pa.float64()}[kind]})
    elif what == "member":
        name = f"s.{model.new_name()}"
        model.types[name] = "string"
        model.ordered()
        table.alter(add={name: pa.string()})
    elif what == "rename":
        old = choose.choice(free)
        head = old.rpartition(".")[0]
        new = model.new_name()
        model.renamed(old, f"{head}.{new}" if head else new)
        table.alter(rename={old: new})
    elif what == "drop":
        gone = [name for name in free if not name.startswith("s.") or sum(each.startswith("s.") for each in free) > 1]
        if gone:
            name = choose.choice(gone)
            del model.types[name]
            for row in model.rows.values():
                row.pop(name, None)
            table.alter(drop=name)
    elif what == "type":
        numbers = [name for name in free if model.types[name] in ("int", "long")]
        if numbers:
            name = choose.choice(numbers)
            kind = "long" if model.types[name] == "int" and choose.random() < 0.5 else "string"
            model.types[name] = kind
            if kind == "string":
                for row in model.rows.values():
                    if row.get(name) is not None:
                        row[name] = str(row[name])
            table.alter(type={name: pa.int64() if kind == "long" else pa.string()})
    elif what == "move":
        one, other = choose.sample(model.top(), 2)
        place = choose.choice(("first", f"after {other}", f"before {other}"))
        left = [name for name in model.top() if name != one]
        at = 0 if place == "first" else left.index(other) + place.startswith("after")
        left.insert(at, one)
        model.types = dict(sorted(model.types.items(), key=lambda item: left.index(item[0].partition(".")[0])))
        table.alter(move={one: place})
    elif what == "compact" and table.table_type == "MERGE_ON_READ":
        table.compact()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "version", "seed"), cases(product(("cow", "mor"), (6, 8, 9), range(4)), "alterations", 2)
)
def test_a_table_is_as_its_model_after_each_step(kind: str, version: int, seed: int) -> None:
    model = Model(random.Random(f"{kind}{version}{seed}"))
    path = f"memory:alter/model-{kind}-{version}-{seed}"
    schema = model.arrow()
    hudi_py.create_table(path, schema, record_key="id", ordering_by="ts", table_type=kind, table_version=version)
    table = hudi_py.open_table(path, {**PLAIN, **ON_READ, "hoodie.clean.automatic": "false"})
    states: list[tuple[str, list[str], list[dict[str, Any]]]] = []
    for _ in range(LONG if os.environ.get("HUDI_PY_WHOLE") else 14):
        step(model, table)
        assert (names(table), rows(table)) == (model.top(), model.expected())
        newest = table.timeline.write_completed[-1:]
        if newest:
            states.append((str(newest[0].time), model.top(), model.expected()))
    for instant, columns, expected in model.choose.sample(states, min(4, len(states))):
        then = [state for state in states if state[0] == instant][-1]
        found = table.scan(as_of=instant).to_table()
        assert [name for name in found.schema.names if name not in META_FIELDS] == then[1]
        assert rows(table, as_of=instant) == then[2], (columns, expected)


# ---- what is stored


@pytest.mark.parametrize(("kind", "version"), cases(list(product(("cow", "mor"), (6, 8, 9))), "stored", 1))
def test_the_history_is_stored_as_apache_hudi_does(kind: str, version: int) -> None:
    table = make(f"stored-{kind}-{version}", kind, version)
    done = table.alter(
        rename={"name": "label", "s.x": "xx"},
        add={"tip": pa.decimal128(10, 2), "s.z": pa.list_(pa.struct([("k", pa.string())]))},
        type={"n": pa.int64()},
        comment={"label": "what it is"},
        move={"tip": "after id", "s.z": "first"},
        options=ON_READ,
    )
    instant = str(done.instant)
    assert (done.operation, done.num_files) == ("alter_schema", 0)
    assert [str(change) for change in done.schema_changes][:3] == [
        "name: string -> renamed to label",
        "s.x: int32 -> renamed to xx",
        "tip: new -> decimal128(10, 2)",
    ]
    newest = table.timeline.write_completed[-1]
    assert newest.action.value == ("commit" if kind == "cow" else "deltacommit")
    stored = extra(table)
    latest = json.loads(stored["latest_schema"])
    assert (latest["max_column_id"], latest["version_id"]) == (16, int(instant))
    fields = {field["name"]: field for field in latest["fields"]}
    assert list(fields) == [*META_FIELDS, "id", "tip", "label", "n", "s", "ts", "city"]
    assert fields["tip"] == {"id": 13, "name": "tip", "optional": True, "type": "decimal(10, 2)"}
    assert fields["label"] == {"id": 6, "name": "label", "optional": True, "type": "string", "doc": "what it is"}
    assert fields["n"] == {"id": 7, "name": "n", "optional": True, "type": "long"}
    element = {"type": "record", "fields": [{"id": 16, "name": "k", "optional": True, "type": "string"}]}
    listed = {"type": "array", "element_id": 15, "element": element, "element_optional": True}
    assert fields["s"]["type"]["fields"] == [
        {"id": 14, "name": "z", "optional": True, "type": listed},
        {"id": 11, "name": "xx", "optional": True, "type": "int"},
        {"id": 12, "name": "y", "optional": True, "type": "string"},
    ]
    avro = json.loads(stored["schema"])
    assert [field["name"] for field in avro["fields"]] == list(fields)
    files = {info.name: info.path for info in table._storage.list(".hoodie/.schema")}
    assert {f"{instant}.schemacommit.requested", f"{instant}.schemacommit.inflight"} < set(files)
    (ended,) = (name for name in files if name.endswith(".schemacommit"))
    assert (ended == f"{instant}.schemacommit") is (version == 6)
    assert ended.startswith(instant)
    history = json.loads(table._storage.read(files[ended]))
    assert [schema["version_id"] for schema in history["schemas"]] == [int(instant), 0]
    assert history["schemas"][0] == latest

    # later writes keep it, and give new columns new ids
    table.upsert(pa.table({"id": [1], "label": ["A"], "ts": [2], "city": ["oslo"]}), options=NULLS)
    kept = extra(table)
    assert (kept["latest_schema"], kept["schema"]) == (stored["latest_schema"], stored["schema"])
    result = table.upsert(pa.table({"id": [2], "ts": [2], "city": ["oslo"], "more": [1.5]}), options=NULLS)
    last = json.loads(extra(table)["latest_schema"])
    assert (last["max_column_id"], last["version_id"]) == (17, int(str(result.instant)))
    assert last["fields"][-1] == {"id": 17, "name": "more", "optional": True, "type": "double"}
    newest_file = max(info.path for info in table._storage.list(".hoodie/.schema") if info.name.endswith("commit"))
    versions = [each["version_id"] for each in json.loads(table._storage.read(newest_file))["schemas"]]
    assert versions == [int(str(result.instant)), int(instant), 0]
    assert [(row["id"], row["label"], row["more"]) for row in rows(table)] == [
        (1, "A", None),
        (2, None, 1.5),
        (3, "c", None),
    ]
    if kind == "mor":
        table.compact()
        assert extra(table)["latest_schema"] == json.dumps(last, separators=(",", ":"))
        assert [row["label"] for row in rows(table)] == ["A", None, "c"]


def test_without_ids_nothing_but_the_schema_changes() -> None:
    table = make("plain")
    table.alter(
        add={"tip": pa.float64(), "s.z": pa.string()}, type={"n": pa.int64()}, move={"tip": "first", "s.z": "before x"}
    )
    assert names(table) == ["tip", "id", "name", "n", "s", "ts", "city"]
    assert [field.name for field in table.schema.field("s").type] == ["z", "x", "y"]
    assert "latest_schema" not in extra(table)
    assert table._storage.list(".hoodie/.schema") == []
    assert rows(table)[0] == {
        "tip": None,
        "id": 1,
        "name": "a",
        "n": 1,
        "s": {"z": None, "x": 1, "y": "q"},
        "ts": 1,
        "city": "oslo",
    }
    again = table.alter(type={"n": pa.int64()})
    assert again.instant is None
    assert again.schema_changes == ()


def test_the_history_begins_with_the_versions_that_commits_have() -> None:
    """Apache Hudi begins with the newest one, and fails to read the older files."""
    table = make("versions")
    first = int(str(table.alter(type={"n": pa.int64()}).instant))
    second = int(str(table.alter(rename={"n": "m"}, options=ON_READ).instant))
    (path,) = (info.path for info in table._storage.list(".hoodie/.schema") if info.name.endswith("commit"))
    found = {each["version_id"]: each["fields"][7] for each in json.loads(table._storage.read(path))["schemas"]}
    assert {version: (field["id"], field["name"], field["type"]) for version, field in found.items()} == {
        second: (7, "m", "long"),
        first: (7, "n", "long"),
        0: (7, "n", "int"),
    }


def test_a_column_of_a_dropped_name_has_none_of_its_values() -> None:
    table = make("dropped", options={**ON_READ, **NULLS})
    table.alter(add={"tip": pa.float64()})
    table.update({"tip": "5.0"})
    table.alter(drop="tip")
    table.insert(pa.table({"id": [9], "ts": [1], "city": ["rome"], "tip": [7.0]}))
    assert [row["tip"] for row in rows(table)] == [None, None, None, 7.0]
    table.upsert(pa.table({"id": [1], "ts": [9], "city": ["oslo"]}))
    assert [row["tip"] for row in rows(table)] == [None, None, None, 7.0]


def test_column_statistics_are_not_kept_once_columns_have_ids() -> None:
    table = make("statistics", options={"hoodie.metadata.enable": "true"})
    assert "column_stats" in table.properties["hoodie.table.metadata.partitions"]
    table.alter(rename={"name": "n2"}, options=ON_READ)
    assert table.properties["hoodie.table.metadata.partitions"] == "files"
    table.update({"n2": "'x'"}, "id = 1")
    assert table.properties["hoodie.table.metadata.partitions"] == "files"
    assert [row["n2"] for row in rows(table)] == ["x", "b", "c"]
    assert table.scan(filter="n2 = 'b'").to_table().num_rows == 1


def test_reconciling_makes_a_schema_evolve_on_read() -> None:
    table = make("reconcile")
    both = {**ON_READ, "hoodie.datasource.write.reconcile.schema": "true"}
    result = table.upsert(pa.table({"id": [1], "ts": [2], "city": ["oslo"], "more": [1]}), options=both)
    latest = json.loads(extra(table)["latest_schema"])
    assert latest["version_id"] == int(str(result.instant))
    table.alter(rename={"more": "less"})
    assert [(row["name"], row["less"]) for row in rows(table)] == [(None, 1), ("b", None), ("c", None)]


# ---- what is refused


def test_what_columns_cannot_become() -> None:
    table = make("refused", options=ON_READ)
    refused: dict[str, dict[str, Any]] = {
        r"rename 'id' in the table 'refused': it is a record key column": {"rename": {"id": "key"}},
        r"drop 'city' .*: it is a partition column": {"drop": "city"},
        r"drop 'ts' .*: it is an ordering column": {"drop": ["ts"]},
        r"change 'id' from long to string .*: it is a record key column": {"type": {"id": pa.string()}},
        r"change 'ts' from long to string .*: it is an ordering column": {"type": {"ts": pa.string()}},
        r"change 'n' from int to boolean .*: int can become long, float, double, string, decimal": {
            "type": {"n": pa.bool_()}
        },
        r"change 's' from a struct to string": {"type": {"s": pa.string()}},
        r"drop 'nothing' in the table .*: it has no 'nothing'; it has id, name, n, s, ts, city": {"drop": "nothing"},
        r"drop 's.z' .*: 's' has no 'z'; it has x, y": {"drop": "s.z"},
        r"add 'NAME' .*: there is 'name' already, and upper and lower case do not differ": {
            "add": {"NAME": pa.string()}
        },
        r"add 'name.x' .*: 'name' is no struct, but string": {"add": {"name.x": pa.string()}},
        r"rename 'name' to 'N' .*: there is 'n' already": {"rename": {"name": "N"}},
        r"rename 'name' to 'a-b' .*: names consist of letters": {"rename": {"name": "a-b"}},
        r"rename 's.x' to 's.z' .*: it cannot move to another struct": {"rename": {"s.x": "s.z"}},
        r"add '_hoodie_x' .*: names that begin with _hoodie_": {"add": {"_hoodie_x": pa.string()}},
        r"drop '_hoodie_record_key' .*: columns that Hudi adds cannot": {"drop": "_hoodie_record_key"},
        r"make 'n' not nullable .*: rows may have nulls": {"nullable": {"n": False}},
        r"drop 's.y' .*: nothing would be left": {"drop": ["s.x", "s.y"]},
        r"move 'n' after n .*: it is the same column": {"move": {"n": "after n"}},
        r"give 'x' the type null": {"add": {"x": pa.null()}},
    }
    before = table.timeline
    for message, arguments in refused.items():
        with pytest.raises(SchemaMismatchError, match=f"Cannot {message}"):
            table.alter(**arguments)
    assert table.timeline.instants == before.instants
    given: dict[str, dict[str, Any]] = {
        r"without a change; give at least one of drop, rename": {},
        r"move=\{'n': 'last'\} is not valid; expected 'first', 'after <column>'": {"move": {"n": "last"}},
        r"add=\{'x': 'int'\} is not valid; expected an Arrow type": {"add": {"x": "int"}},
        r"a column without nulls": {"add": {"x": pa.field("x", pa.int32(), nullable=False)}},
    }
    for message, arguments in given.items():
        with pytest.raises(ConfigError, match=message):
            table.alter(**arguments)


def test_what_needs_ids() -> None:
    table = make("by-name")
    for arguments in (
        {"drop": "n"},
        {"rename": {"n": "m"}},
        {"type": {"name": pa.date32()}},
        {"type": {"n": pa.decimal128(12, 2)}},
    ):
        with pytest.raises(ConfigError, match=r"hoodie\.schema\.on\.read\.enable=true allows for it"):
            table.alter(**arguments)  # type: ignore[arg-type]
    with pytest.raises(TableNotFoundError, match="Cannot alter the table"):
        Table(open_storage("memory:alter/none"), load_table_config(table._storage), {}).alter(drop="x")


def test_members_of_lists_and_maps() -> None:
    path = "memory:alter/lists"
    kinds = pa.schema(
        [
            ("id", pa.int64()),
            ("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    data = pa.Table.from_pylist([{"id": 1, "l": [{"a": 1, "b": "x"}, None], "m": [("k", 7)]}], kinds)
    hudi_py.write(path, data, record_key="id", options=PLAIN)
    table = hudi_py.open_table(path, {**PLAIN, **ON_READ})
    table.alter(
        rename={"l.element.a": "aa"},
        add={"l.element.c": pa.float64()},
        type={"m.value": pa.string(), "l.element.aa": pa.int64()},
        move={"l.element.c": "first"},
    )
    assert rows(table) == [{"id": 1, "l": [{"c": None, "aa": 1, "b": "x"}, None], "m": [("k", "7")]}]
    for path_ in ("l.element", "m.value"):
        with pytest.raises(SchemaMismatchError, match="no type"):
            table.alter(drop=path_)
        with pytest.raises(SchemaMismatchError, match="no other names"):
            table.alter(rename={path_: "x"})


def test_columns_with_an_index_stay() -> None:
    table = make("indexed", options=ON_READ)
    definition = {"indexName": "secondary_index_n", "indexType": "secondary_index", "sourceFields": ["n"]}
    storage = table._storage
    text = json.dumps({"indexDefinitions": {"secondary_index_n": definition}})
    storage.put(".hoodie/.index_defs/index.json", text.encode())
    update_table_config(storage, {"hoodie.table.metadata.partitions": "files,secondary_index_n"})
    for arguments in ({"drop": "n"}, {"rename": {"n": "m"}}, {"type": {"n": pa.int64()}}):
        with pytest.raises(
            SchemaMismatchError, match="it is the source of the index secondary_index_n; drop the index"
        ):
            table.alter(**arguments)  # type: ignore[arg-type]


def test_an_ordering_column_may_become_a_wider_number() -> None:
    path = "memory:alter/ordering"
    data = pa.table({"id": [1, 2], "at": pa.array([5, 5], pa.int32())})
    hudi_py.write(path, data, record_key="id", ordering_by="at", options=PLAIN, table_type="mor")
    table = hudi_py.open_table(path, PLAIN)
    table.alter(type={"at": pa.int64()})
    table.upsert(pa.table({"id": [1, 2], "at": [1 << 40, 4]}))
    assert rows(table) == [{"id": 1, "at": 1 << 40}, {"id": 2, "at": 5}]


@pytest.mark.parametrize("on_read", [True, False])
def test_columns_of_every_type_stay_as_they_are(on_read: bool) -> None:
    decimal, at = pa.decimal128(10, 2), pa.timestamp("us", "UTC")
    inner = pa.struct([("a", decimal), ("b", at)])
    kinds = [
        *(pa.bool_(), pa.int32(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), decimal),
        *(at, pa.timestamp("us"), pa.list_(decimal), pa.map_(pa.string(), at)),
        pa.struct([("a", decimal), ("b", inner), ("c", pa.list_(pa.struct([("a", at)])))]),
    ]
    schema = pa.schema([("id", pa.int64()), *((f"c{number}", kind) for number, kind in enumerate(kinds))])
    data = pa.Table.from_pylist([{"id": 1}], schema)
    path = f"memory:alter/types-{on_read}"
    hudi_py.write(path, data, record_key="id", options=PLAIN)
    table = hudi_py.open_table(path, {**PLAIN, **(ON_READ if on_read else {})})
    before = {field["name"]: field for field in json.loads(extra(table)["schema"])["fields"]}
    for number in range(2):  # also from what is stored
        table.alter(move={"c1": f"after c{number + 2}"}, comment={"c0": str(number)})
        after = {field["name"]: field for field in json.loads(extra(table)["schema"])["fields"]}
        expected = {**before, "c0": {**before["c0"], "doc": str(number)}}
        assert {name: after[name] for name in before} == expected
    table.upsert(data)
    assert rows(table) == data.select(names(table)).to_pylist()


# ---- writers at once


def test_a_write_that_began_before_an_alteration_fails() -> None:
    several = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.num.retries.on.conflict.failures": "0",
    }
    table = make("conflict", options={**ON_READ, **several})

    def batches() -> Any:
        table.alter(rename={"name": "label"})
        yield from ROWS.to_batches()

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(ConflictError, match="has altered the columns of the table"):
        table.upsert(reader)
    assert [row["label"] for row in rows(table)] == ["a", "b", "c"]


def test_names_of_any_script(tmp_path: Path) -> None:
    hudi_py.write(tmp_path / "t", [{"id": 1, "名字": "a", "v": 2}], record_key="id")
    table = hudi_py.open_table(tmp_path / "t", {"hoodie.schema.on.read.enable": "true"})
    table.alter(rename={"v": "爱好_Best"}, add={"größe": pa.int32()})
    table.upsert([{"id": 2, "名字": "b", "爱好_Best": 3, "größe": 4}])
    found = table.scan(["id", "名字", "爱好_Best", "größe"]).to_table().sort_by("id")
    assert found.to_pylist() == [
        {"id": 1, "名字": "a", "爱好_Best": 2, "größe": None},
        {"id": 2, "名字": "b", "爱好_Best": 3, "größe": 4},
    ]
