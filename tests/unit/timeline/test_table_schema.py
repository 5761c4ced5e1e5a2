from __future__ import annotations

import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_py.errors import CorruptFileError
from hudi_py.model.commit import CommitMetadata, WriteStat
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.storage import MemoryStorage
from hudi_py.timeline.layout import layout_for
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.state import TableState
from hudi_py.timeline.table_schema import TableSchema, resolve_table_schema
from hudi_py.timeline.timeline import load_timeline

_NAMES = itertools.count()
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def avro(*names: str) -> str:
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    return json.dumps({"type": "record", "name": "t", "namespace": "n", "fields": fields})


class Table:
    def __init__(self, **properties: str) -> None:
        self.storage = MemoryStorage(f"schema-{next(_NAMES)}")
        names = {key.replace("__", "."): value for key, value in properties.items()}
        self.config = TableConfig({"hoodie.table.name": "t", "hoodie.table.version": "9", **names})

    def commit(
        self, instant: str, extra: dict[str, str], operation: str = "UPSERT", stats: tuple[WriteStat, ...] = ()
    ) -> Table:
        layout = layout_for(self.config)
        data = encode_commit_metadata(
            CommitMetadata(operation, stats, extra), layout, action=Action.COMMIT, completed=True
        )
        self.storage.put(layout.path(layout.completed_name(instant, Action.COMMIT, instant + "1")), data)
        return self

    def resolve(self) -> TableSchema | None:
        return resolve_table_schema(TableState(self.storage, self.config, load_timeline(self.storage, self.config)))

    def names(self) -> list[str]:
        resolved = self.resolve()
        assert resolved is not None
        return list(resolved.arrow.names)


def test_newest_commit_with_a_schema() -> None:
    table = Table().commit("10", {"schema": avro("a")}).commit("20", {"schema": avro("a", "b")}).commit("30", {})
    assert table.names() == [*META, "a", "b"]


def test_table_services_come_after_writes() -> None:
    table = Table().commit("10", {"schema": avro("a", "b")}).commit("20", {"schema": avro("a")}, "COMPACT")
    assert table.names() == [*META, "a", "b"]
    assert Table().commit("20", {"schema": avro("a")}, "CLUSTER").names() == [*META, "a"]


def test_meta_columns_are_cut_off_and_put_in_front() -> None:
    table = Table().commit("10", {"schema": avro("a", *META, "_hoodie_operation")})
    resolved = table.resolve()
    assert resolved is not None
    assert [field["name"] for field in resolved.avro["fields"]] == ["a", "_hoodie_operation"]
    assert resolved.arrow.names == [*META, "a", "_hoodie_operation"]


def test_tables_without_meta_columns() -> None:
    table = Table(hoodie__populate__meta__fields="false").commit("10", {"schema": avro("a")})
    assert table.names() == ["a"]


def test_dropped_partition_columns_come_back_as_strings() -> None:
    table = Table(
        hoodie__table__partition__fields="a,p", hoodie__datasource__write__drop__partition__columns="true"
    ).commit("10", {"schema": avro("a")})
    assert table.names() == [*META, "a", "p"]


def test_schema_of_creation() -> None:
    assert Table(hoodie__table__create__schema=avro("x")).names() == [*META, "x"]


def test_empty_table() -> None:
    assert Table().resolve() is None
    assert Table().commit("10", {}).resolve() is None


@pytest.mark.parametrize("with_avro", [True, False])
def test_schema_of_a_data_file(with_avro: bool) -> None:
    path = "p/a_0-0-0_10.parquet"
    table = Table().commit("10", {}, stats=(WriteStat("a", "p/gone_0-0-0_10.parquet", "p"), WriteStat("a", path, "p")))
    schema = pa.schema([pa.field(name, pa.string()) for name in [*META, "a"]])
    if with_avro:
        schema = schema.with_metadata({"parquet.avro.schema": avro(*META, "a")})
    with table.storage.open_output(path) as file:
        pq.write_table(schema.empty_table(), file)
    assert table.names() == [*META, "a"]
    table.storage.put(path, b"no parquet file")
    with pytest.raises(CorruptFileError, match=r"a_0-0-0_10\.parquet"):
        table.resolve()


def internal(version: int, *names: str) -> str:
    fields = [{"id": at, "name": name, "optional": True, "type": "long"} for at, name in enumerate(names)]
    return json.dumps({"max_column_id": 9, "version_id": version, "type": "record", "fields": fields})


@pytest.mark.parametrize("name", ["10.schemacommit", "10_11.schemacommit"])
def test_schema_on_read(name: str) -> None:
    table = Table().commit("10", {"schema": avro("b"), "latest_schema": internal(10, "b")})
    older = f'{{"schemas":[{internal(10, "b")},{internal(0, "a")}]}}'
    table.storage.put(f".hoodie/.schema/{name}", older.encode())
    table.storage.put(".hoodie/.schema/10.schemacommit.requested", b"")
    table.storage.put(".hoodie/.schema/99.schemacommit", b"of a write that did not complete")
    found = table.resolve()
    assert found is not None
    assert found.evolves_on_read
    assert found.history is not None
    assert [schema.version_id for schema in found.history.versions] == [0, 10]
    assert found.history.columns("09", ["b"]) == ["a"]
    assert found.history.columns("10", ["b"]) == ["b"]


def test_a_write_without_latest_schema_ends_schema_on_read() -> None:
    table = Table().commit("10", {"schema": avro("b"), "latest_schema": internal(10, "b")})
    found = table.commit("11", {"schema": avro("b")}).resolve()
    assert found is not None
    assert not found.evolves_on_read


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"type":"record","fields":[{}]}', '{"type":"map"}', "[" * 9999])
def test_corrupt_internal_schema(text: str) -> None:
    with pytest.raises(CorruptFileError, match="latest_schema in a commit"):
        Table().commit("10", {"schema": avro("a"), "latest_schema": text}).resolve()
    table = Table().commit("10", {"schema": avro("b"), "latest_schema": internal(10, "b")})
    table.storage.put(".hoodie/.schema/10.schemacommit", text.encode())
    with pytest.raises(CorruptFileError, match=r"\.hoodie/\.schema/10\.schemacommit"):
        table.resolve()


@pytest.mark.parametrize(
    "text", ["{", "[]", '"string"', '{"type":"record"}', '{"type":"record","fields":[1]}', "[" * 9999]
)
def test_corrupt_schema(text: str) -> None:
    with pytest.raises(CorruptFileError, match="schema in a commit"):
        Table().commit("10", {"schema": text}).resolve()
