"""Tables made of files that there are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, CorruptFileError, HudiError, TableExistsError
from hudi_py.formats.hfile import open_hfile
from hudi_py.storage import open_storage
from hudi_py.timeline.records import decode_record
from hudi_py.view.bootstrap import bootstrap_mappings
from hudi_py.write.bootstrap import run, skeletons
from hudi_py.write.bootstrap.skeletons import write_bootstrap_index
from tests.support import archives
from tests.support.sources import contents, rows, source

DATA = Path(__file__).parents[1] / "read" / "data" / "bootstrap"
BARE = {"hoodie.metadata.enable": "false"}
INDEXED = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
NAMES = {"record_key": "id", "partition_by": "city", "ordering_by": "ts"}


def content(path: Path, **query: Any) -> dict[str, tuple[Any, ...]]:
    found = hudi_py.open_table(str(path)).scan(**query).to_table().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["n"], row["city"]) for row in found}


ALL = {f"k{each}": (each, "oslo" if each < 7 else "rome") for each in range(12)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("style", "extension", "version", "kind", "mode"),
    [
        ("hive", "parquet", 9, "mor", "metadata_only"),
        ("plain", "orc", 8, "cow", "metadata_only"),
        ("flat", "parquet", 6, "cow", "metadata_only"),
        ("hive", "orc", 6, "mor", "full_record"),
        ("flat", "parquet", 9, "cow", "full_record"),
    ],
)
def test_a_table_of_files(tmp_path: Path, style: str, extension: str, version: int, kind: str, mode: str) -> None:
    folder, path = source(tmp_path / "source", style, extension), tmp_path / "t"
    before = contents(folder)
    options = INDEXED if (version, kind) == (9, "mor") else {}
    partition = None if style == "flat" and mode == "metadata_only" else "city"
    made = hudi_py.bootstrap(
        path,
        folder,
        mode,
        record_key="id",
        partition_by=partition,
        ordering_by="ts",
        table_type=kind,
        table_version=version,
        options=options,
    )
    instant = "00000000000001" if mode == "metadata_only" else "00000000000002"
    assert (made.operation, made.instant, made.num_inserted, made.num_files) == ("bootstrap", instant, 12, 2)
    assert content(path) == ALL
    table = hudi_py.open_table(path)
    assert table.metadata.verify().ok
    assert hudi_py.doctor(path).healthy
    assert table.properties["hoodie.bootstrap.base.path"] == str(folder)
    for ids, city in (([1, 20], "oslo"), ([8], "rome")):
        written = hudi_py.write(path, rows(ids, city, n=100), options=options)
        assert written.num_updated == 1
    expected = ALL | {"k1": (100, "oslo"), "k20": (100, "oslo"), "k8": (100, "rome")}
    assert content(path) == expected
    for value in (3, 100, 11):
        assert content(path, filter=f"n = {value}") == {key: row for key, row in expected.items() if row[0] == value}
    assert table.metadata.verify().ok
    assert contents(folder) == before


def test_modes_by_partition(tmp_path: Path) -> None:
    folder, path = source(tmp_path / "source", "hive"), tmp_path / "t"
    made = hudi_py.bootstrap(path, folder, "full_record", regex=".*rome", options=BARE, **NAMES)  # type: ignore[arg-type]
    assert (made.num_inserted, made.num_files, made.instant) == (12, 2, "00000000000002")
    assert content(path) == ALL
    assert content(path, as_of="00000000000001") == {key: row for key, row in ALL.items() if row[1] == "oslo"}
    assert [each.partition for each in bootstrap_mappings(open_storage(path))] == ["city=oslo"]
    assert not [key for key in hudi_py.open_table(path).properties if key.startswith("hoodie.py.")]


def test_folders_of_dates_that_name_no_column(tmp_path: Path) -> None:
    for month, ids in ((1, [1, 2]), (2, [3])):
        folder = tmp_path / "source" / "2026" / f"0{month}"
        folder.mkdir(parents=True)
        pq.write_table(rows(ids), folder / "f.parquet")
    given: dict[str, Any] = {"record_key": "id", "partition_by": ["year", "month"], "options": BARE}
    with pytest.raises(ConfigError, match="partition column 'year': it is neither in the files nor named"):
        hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", **given)
    hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", "full_record", **given)
    found = hudi_py.open_table(tmp_path / "t").scan(columns=["id", "year", "month", "_hoodie_partition_path"])
    assert sorted(map(tuple, (row.values() for row in found.to_table().to_pylist()))) == [
        ("k1", "2026", "01", "2026/01"),
        ("k2", "2026", "01", "2026/01"),
        ("k3", "2026", "02", "2026/02"),
    ]


@pytest.mark.parametrize("translator", ["Identity", "Decoded"])
def test_encoded_folders(tmp_path: Path, translator: str) -> None:
    folder = tmp_path / "source" / "city=a%20b"
    folder.mkdir(parents=True)
    pq.write_table(rows([1]), folder / "f.parquet")
    kind = f"org.apache.hudi.client.bootstrap.translator.{translator}BootstrapPartitionPathTranslator"
    options = {**BARE, "hoodie.bootstrap.partitionpath.translator.class": kind}
    if translator == "Identity":
        with pytest.raises(ConfigError, match="belongs to the partition"):  # a space needs no encoding
            hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", options=options, **NAMES)  # type: ignore[arg-type]
        return
    hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", options=options, **NAMES)  # type: ignore[arg-type]
    assert hudi_py.open_table(tmp_path / "t").partitions()["partition"].to_pylist() == ["city=a b"]
    hudi_py.write(tmp_path / "t", rows([1], "a b", n=7), options=BARE)
    assert content(tmp_path / "t") == {"k1": (7, "a b")}


def test_columns_of_all_files(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}), folder / "1.parquet")
    pq.write_table(pa.table({"id": ["b"], "n": pa.array([2**40]), "more": [True]}), folder / "2.parquet")
    hudi_py.bootstrap(tmp_path / "t", folder, record_key="id", options=BARE)
    found = hudi_py.open_table(tmp_path / "t").scan(columns=["id", "n", "more"]).to_table()
    assert found.schema.field("n").type == pa.int64()
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == [
        {"id": "a", "n": 1, "more": None},
        {"id": "b", "n": 2**40, "more": True},
    ]


def test_a_column_of_nulls_takes_the_type_that_others_have(tmp_path: Path) -> None:
    """As pandas writes it where a file has no value."""
    folder = tmp_path / "source"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "n": pa.nulls(1)}), folder / "1.parquet")
    pq.write_table(pa.table({"id": ["b"], "n": [2]}), folder / "2.parquet")
    with pytest.raises(HudiError, match=r"Column 'n' is null, which Apache Hudi does not read .* FULL_RECORD"):
        hudi_py.bootstrap(tmp_path / "t", folder, record_key="id", options=BARE)
    hudi_py.bootstrap(tmp_path / "t", folder, "full_record", record_key="id", options=BARE)
    found = hudi_py.open_table(tmp_path / "t").scan(columns=["id", "n"]).to_table()
    assert found.sort_by("id").to_pylist() == [{"id": "a", "n": None}, {"id": "b", "n": 2}]


@pytest.mark.parametrize("new", ["true", "false"])
def test_a_single_key_of_several_partition_columns(tmp_path: Path, new: str) -> None:
    """Version 8: whether keys are named follows from those in the skeletons."""
    folder = tmp_path / "source" / "city=oslo" / "day=1"
    folder.mkdir(parents=True)
    pq.write_table(rows([1, 2]), folder / "f.parquet")
    given: dict[str, Any] = {"record_key": "id", "partition_by": ["city", "day"], "table_version": 8}
    encoding = {"hoodie.write.complex.keygen.new.encoding": new}
    hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", options={**BARE, **encoding}, **given)
    more = rows([1], "oslo", n=7).append_column("day", pa.array(["1"]))
    hudi_py.write(tmp_path / "t", more, options=BARE)
    assert content(tmp_path / "t") == {"k1": (7, "oslo"), "k2": (2, "oslo")}


def nothing(folder: Path) -> None:
    shutil.rmtree(folder)


def deeper(folder: Path) -> None:
    pq.write_table(rows([50], "oslo"), folder / "f.parquet")


def other_format(folder: Path) -> None:
    (folder / "city=oslo" / "f.csv").write_text("id\n1\n")


def hudi_table(folder: Path) -> None:
    (folder / ".hoodie").mkdir()


def no_key(folder: Path) -> None:
    table = rows([50]).set_column(0, "id", pa.array([None], pa.string()))
    pq.write_table(table, folder / "city=oslo" / "f.parquet")


def other_city(folder: Path) -> None:
    pq.write_table(rows([50, 51], "lima"), folder / "city=oslo" / "f.parquet")


def other_type(folder: Path) -> None:
    pq.write_table(rows([50]).set_column(1, "n", pa.array(["x"])), folder / "city=oslo" / "f.parquet")


def other_case(folder: Path) -> None:
    pq.write_table(rows([50]).rename_columns(["id", "N", "ts"]), folder / "city=oslo" / "f.parquet")


def nanoseconds(folder: Path) -> None:
    table = rows([50]).append_column("times", pa.array([[1001]], pa.list_(pa.timestamp("ns"))))
    pq.write_table(table, folder / "city=oslo" / "f.parquet")


def durations(folder: Path) -> None:
    table = rows([50]).append_column("took", pa.array([1], pa.duration("us")))
    pq.write_table(table, folder / "city=oslo" / "f.parquet")


def damaged(folder: Path) -> None:
    (folder / "city=oslo" / "f.parquet").write_bytes(b"PAR1 and no more")


def as_it_is(folder: Path) -> None:
    return


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        (nothing, {}, "there are no .parquet or .orc files"),
        (deeper, {}, "files at several levels, f.parquet and city=oslo/oslo.parquet"),
        (other_format, {}, r"it has the file city=oslo/f.csv; supported: files that end with .parquet"),
        (hudi_table, {}, "it is or holds a Hudi table"),
        (no_key, {}, "Record key column 'id' is null or empty in 1 of 1 rows"),
        (other_city, {}, "belongs to the partition 'city=lima'|has a row of the partition 'city=lima'"),
        (other_type, {}, "Column 'n'"),
        (other_case, {}, "occurs more than once in the data .as 'N', where only the case differs"),
        (
            nanoseconds,
            {},
            r"'times.element' is timestamp\[ns\], which Apache Hudi does not read .*FULL_RECORD",
        ),
        (nanoseconds, {"mode": "full_record"}, "f.parquet: Column 'times.element' of type timestamp.*would lose data"),
        (durations, {}, r"Cannot bootstrap from file:.*/city=oslo/f.parquet: Column 'took'"),
        (damaged, {}, "f.parquet"),
        (as_it_is, {"partition_by": None}, "without partition columns: it has the folder city=oslo"),
        (as_it_is, {"partition_by": "ts"}, "a row of city=oslo/oslo.parquet belongs to the partition '1'|ts=1"),
        (as_it_is, {"record_key": None}, "without hoodie.datasource.write.recordkey.field"),
        (as_it_is, {"options": {"hoodie.populate.meta.fields": "false"}}, "hoodie.populate.meta.fields=false"),
        (as_it_is, {"options": {"hoodie.table.base.file.format": "ORC"}}, "its files are PARQUET"),
        (as_it_is, {"options": {"hoodie.index.type": "BUCKET"}}, "keys of several buckets"),
        (
            as_it_is,
            {"options": {"hoodie.datasource.write.hive_style_partitioning": "false"}},
            "belongs to the partition 'oslo'",
        ),
        (as_it_is, {"mode": "some"}, "Argument mode='some' is not valid"),
        (as_it_is, {"regex": "("}, "it is not a regular expression"),
        (as_it_is, {"options": {"hoodie.bootstrap.base.path": "/other"}}, "contradict the option"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path: Path, change: Any, given: Mapping[str, Any], message: str) -> None:
    folder = source(tmp_path / "source", "hive")
    change(folder)
    with pytest.raises(HudiError, match=message):
        hudi_py.bootstrap(tmp_path / "t", folder, **{**NAMES, **given})
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*"))


def test_a_table_is_not_overwritten(tmp_path: Path) -> None:
    folder = source(tmp_path / "source", "hive")
    hudi_py.bootstrap(tmp_path / "t", folder, options=BARE, **NAMES)  # type: ignore[arg-type]
    for path in (tmp_path / "t", tmp_path / "t2"):
        if path.name == "t2":
            hudi_py.write(path, rows([1], "oslo"), record_key="id", options=BARE)
        before = contents(path)
        with pytest.raises(TableExistsError, match="there is one already"):
            hudi_py.bootstrap(path, folder, options=BARE, **NAMES)  # type: ignore[arg-type]
        assert contents(path) == before
    for path in (folder, folder / "city=oslo" / "t", tmp_path):
        with pytest.raises(ConfigError, match="one lies in the other"):
            hudi_py.bootstrap(path, folder, options=BARE, **NAMES)  # type: ignore[arg-type]


def test_a_completed_bootstrap_cannot_be_rolled_back(tmp_path: Path) -> None:
    folder = source(tmp_path / "source", "hive")
    hudi_py.bootstrap(tmp_path / "t", folder, options=BARE, **NAMES)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it is a bootstrap"):
        hudi_py.open_table(tmp_path / "t").rollback("00000000000001")


def test_the_index_is_apache_hudis(tmp_path: Path) -> None:
    """What is written from its mappings holds the same entries, in files with the same content."""
    archives.extract(DATA / "tables.tar.gz", tmp_path)
    storage, ours = open_storage(tmp_path / "mor9"), open_storage(tmp_path / "ours")
    mappings = list(bootstrap_mappings(storage))
    infos = []
    folder = ".hoodie/.aux/.bootstrap"
    described = {}
    for info in storage.list(f"{folder}/.partitions"):
        for value in open_hfile(storage, info.path, info.size).scan().values.to_pylist():
            described |= decode_record(value, "")["fileIdToBootstrapFile"]
    for mapping in mappings:
        found = storage.list(".hoodie")[0]
        status = described[mapping.file_id]
        infos.append(found._replace(size=status["length"], modified_ms=status["modificationTime"]))
    write_bootstrap_index(ours, mappings[0].source_base, list(zip(mappings, infos, strict=True)))
    for part in (".partitions", ".fileids"):
        (one,), (other,) = (each.list(f"{folder}/{part}") for each in (storage, ours))
        assert one.name == other.name
        theirs, own = open_hfile(storage, one.path, one.size), open_hfile(ours, other.path, other.size)
        assert list(theirs.info) == list(own.info)
        assert theirs.scan().keys.equals(own.scan().keys)
        for left, right in zip(theirs.scan().values.to_pylist(), own.scan().values.to_pylist(), strict=True):
            assert decode_record(left, "") == decode_record(right, "")


def test_a_skeleton_is_apache_hudis(tmp_path: Path) -> None:
    archives.extract(DATA / "tables.tar.gz", tmp_path)
    options = {**BARE, "hoodie.index.type": "BLOOM"}
    hudi_py.bootstrap(tmp_path / "t", tmp_path / "source", options=options, table_type="mor", **NAMES)  # type: ignore[arg-type]
    (one,), (other,) = (
        list((tmp_path / name / "city=rome").glob("*_00000000000001.parquet")) for name in ("mor9", "t")
    )
    theirs, ours = pq.ParquetFile(one), pq.ParquetFile(other)
    for name in ("parquet.avro.schema", "hoodie_min_record_key", "hoodie_max_record_key", "writer.model.name"):
        assert theirs.metadata.metadata[name.encode()] == ours.metadata.metadata[name.encode()]
    assert theirs.schema_arrow.remove_metadata() == ours.schema_arrow.remove_metadata()
    assert len(other.name.partition("_")[0]) == 36
    for name in ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"):
        assert theirs.read([name]).equals(ours.read([name]))


def test_a_source_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = source(tmp_path / "source", "hive")
    write = skeletons.write_skeleton

    def changed(*given: Any) -> Any:
        with (folder / "city=rome" / "rome.parquet").open("ab") as file:
            file.write(b"more")
        return write(*given)

    monkeypatch.setattr(run, "write_skeleton", changed)
    with pytest.raises(HudiError):
        hudi_py.bootstrap(tmp_path / "t", folder, options=BARE, **NAMES)  # type: ignore[arg-type]
    assert not list((tmp_path / "t").rglob("*"))


def test_the_metadata_table_is_compacted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the time of a bootstrap with digits appended, in version 6."""
    folder = source(tmp_path / "source", "hive")
    options = {"hoodie.metadata.compact.max.delta.commits": "1"}
    hudi_py.bootstrap(tmp_path / "t", folder, options=options, table_version=6, **NAMES)  # type: ignore[arg-type]
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    own = hudi_py.open_table(tmp_path / "t" / ".hoodie" / "metadata").timeline
    assert "00000000000001001" in [instant.time for instant in own.completed]
    assert hudi_py.open_table(tmp_path / "t").metadata.verify().ok


@pytest.mark.parametrize(("kind", "function"), [("column_stats", "upper"), ("bloom_filters", "lower")])
def test_an_expression_index_has_the_rows_of_the_source(tmp_path: Path, kind: str, function: str) -> None:
    folder = source(tmp_path / "source", "hive")
    hudi_py.bootstrap(tmp_path / "t", folder, **NAMES)  # type: ignore[arg-type]
    hudi_py.open_table(tmp_path / "t").index("of_ids", column="id", using=kind, index_options={"expr": function})
    table = hudi_py.open_table(tmp_path / "t")
    assert table.metadata.verify().ok
    text = "K8" if function == "upper" else "k8"
    scan = table.scan(filter=f"{function}(id) = '{text}'")
    assert (scan.count(), len(scan.splits())) == (1, 1)


@pytest.mark.parametrize("regex", [None, ".*oslo"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_versions_change(tmp_path: Path, kind: str, regex: str | None) -> None:
    """The times of bootstraps, and of compactions of the metadata table after them, have no time before."""
    folder = source(tmp_path / "source", "hive")
    options = {"hoodie.metadata.compact.max.delta.commits": "1"}
    new: dict[str, Any] = {**NAMES, "table_version": 6, "table_type": kind}
    hudi_py.bootstrap(tmp_path / "t", folder, regex=regex, options=options, **new)
    hudi_py.open_table(tmp_path / "t").upgrade()
    for version in (9, 6):
        table = hudi_py.open_table(tmp_path / "t", options)
        assert (table.version, content(tmp_path / "t")) == (version, ALL)
        assert table.metadata.verify().ok
        if version == 9:
            table.downgrade(6)
    table.index("record_index", using="record_index")
    hudi_py.write(tmp_path / "t", rows([1], "oslo", n=7), options=options)
    assert content(tmp_path / "t") == {**ALL, "k1": (7, "oslo")}
    assert hudi_py.open_table(tmp_path / "t").metadata.verify().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_and_erasures_read_the_source(tmp_path: Path, kind: str) -> None:
    """A row before its change is in the source, and after a file group was rewritten no longer."""
    folder, path = source(tmp_path / "source", "hive"), tmp_path / "t"
    logged = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "op_key_only"}
    hudi_py.bootstrap(path, folder, table_type=kind, options=logged, **NAMES)  # type: ignore[arg-type]
    hudi_py.write(path, rows([1], "oslo", n=7))
    changes = hudi_py.open_table(path).scan(query_type="cdc", begin="00000000000001").to_table().to_pylist()
    (change,) = [row for row in changes if row["op"] == "u"]
    assert (json.loads(change["before"])["n"], json.loads(change["after"])["n"]) == (1, 7)
    table = hudi_py.open_table(path)
    if kind == "mor":
        table.compact(options={"hoodie.compact.inline.max.delta.commits": "1"})
    report = hudi_py.open_table(path).erase(keys=["k1", "k2"])
    assert report.complete
    assert content(path) == {key: value for key, value in ALL.items() if key not in ("k1", "k2")}


@pytest.mark.parametrize("version", [6, 9])
def test_an_emptied_commit_is_no_table_without_columns(tmp_path: Path, version: int) -> None:
    """Skeletons have meta columns only; their commit alone says what else there is."""
    folder, path = source(tmp_path / "source", "hive", "parquet"), tmp_path / "t"
    hudi_py.bootstrap(path, folder, "metadata_only", table_version=version, options=BARE, **NAMES)
    (commit,) = (file for file in path.rglob("00000000000001*.commit") if file.stat().st_size)
    commit.write_bytes(b"")
    with pytest.raises(CorruptFileError, match="has meta columns only: it is a skeleton of a bootstrapped file"):
        content(path)
