"""Base files: what is written, footers, and files of other writers."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_py
from hudi_py.errors import ConfigError, CorruptFileError, SchemaMismatchError
from hudi_py.formats.arrays import in_schema, numbered
from hudi_py.formats.base.files import iter_base_batches, open_base_file, read_footer
from hudi_py.formats.base.parquet import _damage_named as damage_named
from hudi_py.formats.base.parquet import open_parquet
from hudi_py.formats.base.parquet_writer import BaseFileWriter, FileLayout
from hudi_py.formats.base.reader import BaseFileFooter
from hudi_py.formats.base.rows import least_and_greatest, with_repeated
from hudi_py.formats.keys.bloom import SIMPLE, BloomConfig, BloomFilter
from hudi_py.storage import LocalStorage, Storage, open_storage

META = [
    pa.field(name, pa.string())
    for name in (
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    )
]
SMALL = BloomConfig(100, 1e-3)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path))


def rows(keys: list[str], **columns: pa.Array) -> pa.Table:
    count = len(keys)
    meta: dict[str, pa.Array] = {
        "_hoodie_commit_time": pa.repeat("001", count),
        "_hoodie_commit_seqno": pa.array([f"001_0_{at}" for at in range(count)], pa.string()),
        "_hoodie_record_key": pa.array(keys, pa.string()),
        "_hoodie_partition_path": pa.repeat("p=1", count),
        "_hoodie_file_name": pa.repeat("f.parquet", count),
    }
    return pa.table(meta | columns)


def written(storage: Storage, table: pa.Table, path: str = "p=1/f.parquet", **options: Any) -> str:
    with BaseFileWriter(storage, path, table.schema, '"avro"', **({"bloom": SMALL} | options)) as writer:
        writer.write(table)
    return path


def read(storage: Storage, path: str, columns: list[str] | None = None, **options: Any) -> pa.Table:
    with open_base_file(storage, path) as file:
        return pa.Table.from_batches(file.batches(columns, **options))


ALL_TYPES = {
    "b": pa.array([True, None]),
    "i": pa.array([1, None], pa.int32()),
    "l": pa.array([1, None], pa.int64()),
    "f": pa.array([1.5, None], pa.float32()),
    "d": pa.array([1.5, None], pa.float64()),
    "s": pa.array(["x", None]),
    "bin": pa.array([b"x", None]),
    "dt": pa.array([dt.date(2024, 1, 2), None]),
    "ts": pa.array([1, None], pa.timestamp("us", "UTC")),
    "tn": pa.array([1, None], pa.timestamp("us")),
    "dec5": pa.array([decimal.Decimal("1.23"), None], pa.decimal128(5, 2)),
    "dec18": pa.array([decimal.Decimal("1.234567"), None], pa.decimal128(18, 6)),
    "dec38": pa.array([decimal.Decimal("1"), None], pa.decimal128(38, 0)),
    "arr": pa.array([[1, None], None], pa.list_(pa.int32())),
    "arrs": pa.array(
        [[{"x": [["a"]], "y": None}], None],
        pa.list_(pa.struct({"x": pa.list_(pa.list_(pa.string())), "y": pa.int32()})),
    ),
    "m": pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())),
    "st": pa.array(
        [{"a": 1, "c": {"t": 5}}, None],
        pa.struct({"a": pa.int32(), "c": pa.struct({"t": pa.timestamp("us", "UTC")})}),
    ),
}


def test_every_type_comes_back(storage: Storage) -> None:
    table = rows(["a", "b"], **ALL_TYPES)
    path = written(storage, table)
    assert read(storage, path).equals(table)
    assert read_footer(storage, path).schema == table.schema


def test_parquet_types_are_those_of_apache_hudi(storage: Storage) -> None:
    path = written(storage, rows(["a", "b"], **ALL_TYPES))
    with open_parquet(storage, path) as file:
        leaves = {leaf.path: leaf for leaf in (file.schema.column(at) for at in range(len(file.schema)))}
        assert file.metadata.format_version == "1.0"
        assert "ARROW:schema" not in {key.decode() for key in file.metadata.metadata}
        group = file.metadata.row_group(0)
        assert {group.column(at).compression for at in range(group.num_columns)} == {"ZSTD"}
    assert {name: leaf.physical_type for name, leaf in leaves.items() if name[0] != "_"} == {
        "b": "BOOLEAN", "i": "INT32", "l": "INT64", "f": "FLOAT", "d": "DOUBLE", "s": "BYTE_ARRAY",
        "bin": "BYTE_ARRAY", "dt": "INT32", "ts": "INT64", "tn": "INT64", "dec5": "FIXED_LEN_BYTE_ARRAY",
        "dec18": "FIXED_LEN_BYTE_ARRAY", "dec38": "FIXED_LEN_BYTE_ARRAY", "arr.list.element": "INT32",
        "arrs.list.element.x.list.element.list.element": "BYTE_ARRAY", "arrs.list.element.y": "INT32",
        "m.key_value.key": "BYTE_ARRAY", "m.key_value.value": "DOUBLE", "st.a": "INT32", "st.c.t": "INT64",
    }  # fmt: skip
    assert [leaves[name].length for name in ("dec5", "dec18", "dec38")] == [3, 8, 16]
    for name, adjusted in (("ts", True), ("tn", False)):
        kind = json.loads(leaves[name].logical_type.to_json())
        assert (kind["isAdjustedToUTC"], kind["timeUnit"]) == (adjusted, "microseconds")


def test_footer(storage: Storage) -> None:
    table = rows(["b", "a", "c"])
    path = written(storage, table)
    footer = read_footer(storage, path)
    assert (footer.num_rows, footer.num_row_groups) == (3, 1)
    assert (footer.min_key, footer.max_key) == ("a", "c")
    assert dict(footer.metadata) == {
        "parquet.avro.schema": '"avro"',
        "writer.model.name": "avro",
        "hoodie_bloom_filter_type_code": "DYNAMIC_V0",
        "hoodie_min_record_key": "a",
        "hoodie_max_record_key": "c",
    }
    assert footer.bloom is not None
    assert footer.bloom_text == BloomFilter.from_keys(table["_hoodie_record_key"], SMALL).encode()
    assert footer.bloom.might_contain(pa.array(["a", "zz"])).tolist() == [True, False]
    assert pickle.loads(pickle.dumps(footer)) == footer


def test_simple_filter_has_no_type_code(storage: Storage) -> None:
    footer = read_footer(storage, written(storage, rows(["a"]), bloom=BloomConfig(10, 0.1, type=SIMPLE)))
    assert "hoodie_bloom_filter_type_code" not in footer.metadata
    assert footer.bloom is not None
    assert footer.bloom.type_code == SIMPLE


def test_old_name_of_the_filter(storage: Storage, tmp_path: Path) -> None:
    text = BloomFilter.from_keys(pa.array(["a"]), BloomConfig(10, 0.1, type=SIMPLE)).encode()
    table = rows(["a"]).replace_schema_metadata({"com.uber.hoodie.bloomfilter": text})
    pq.write_table(table, tmp_path / "old.parquet")
    footer = read_footer(storage, "old.parquet")
    assert footer.bloom is not None
    assert footer.bloom.might_contain(pa.array(["a"])).all()
    assert footer.min_key is None


def test_without_filter_and_without_rows(storage: Storage) -> None:
    footer = read_footer(storage, written(storage, rows(["a"]), bloom=None))
    assert footer.bloom is None
    assert footer.min_key is None
    empty = written(storage, rows([]), path="empty.parquet")
    footer = read_footer(storage, empty)
    assert footer.num_rows == 0
    assert footer.min_key is None
    assert footer.bloom is not None
    assert list(iter_base_batches(storage, empty, None)) == []


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["b", "a", None], ("a", "b")),
        (["é", "z", "ключ"], ("z", "ключ")),
        # U+FFFD is greater than the surrogates of U+1F600 in UTF-16, and smaller in UTF-8
        (["😀", "\ufffd", None], ("😀", "\ufffd")),
        (["a", "\ue000", "😀"], ("a", "\ue000")),
        ([], (None, None)),
        ([None], (None, None)),
    ],
)
def test_order_of_keys_is_that_of_java_strings(
    storage: Storage, keys: list[str | None], expected: tuple[str | None, str | None]
) -> None:
    assert least_and_greatest(pa.array(keys, pa.string())) == expected
    with BaseFileWriter(storage, "k.parquet", pa.schema(META), "{}", bloom=SMALL) as writer:
        for key in keys:
            if key is not None:
                writer.write(rows([key]))
        summary = writer.close()
    assert (summary.min_key, summary.max_key) == expected
    inside = read_footer(storage, "k.parquet").in_range(pa.array(keys, pa.string()))
    assert inside is None or inside.drop_null().to_pylist() == [True] * sum(key is not None for key in keys)


def test_keys_within_the_range_of_a_file(storage: Storage) -> None:
    footer = read_footer(storage, written(storage, rows(["b", "é", "y"])))
    inside = footer.in_range(pa.array(["a", "b", "m", "y", "z", "é", "ключ"]))
    assert inside is not None
    assert inside.to_pylist() == [False, True, True, True, True, True, False]
    for key in ("\ue000", "\ufffd", "😀"):  # Java orders them otherwise
        assert footer.in_range(pa.array(["c", key])) is None
        other = BaseFileFooter("f", 1, 1, pa.schema([]), {}, "a", key, None, None)
        assert other.in_range(pa.array(["b"])) is None
    assert replace(footer, min_key=None).in_range(pa.array(["b"])) is None


@pytest.mark.parametrize("codec", ["gzip", "SNAPPY", "zstd", "uncompressed"])
def test_codecs(storage: Storage, codec: str) -> None:
    path = written(storage, rows(["a"]), layout=FileLayout(codec))
    with open_parquet(storage, path) as file:
        assert file.metadata.row_group(0).column(0).compression == codec.upper()
    assert read(storage, path).num_rows == 1


def test_wrong_options(storage: Storage) -> None:
    with pytest.raises(ConfigError, match=r"f\.parquet with the codec 'lzo'; supported: gzip"):
        written(storage, rows(["a"]), path="f.parquet", layout=FileLayout("lzo"))
    with pytest.raises(ConfigError, match="no column '_hoodie_record_key'"):
        written(storage, rows(["a"]).drop_columns("_hoodie_record_key"))


def test_memory_and_row_groups_are_bounded(storage: Storage) -> None:
    table = rows([f"key-{at:08}" for at in range(20_000)])
    size = table.cast(with_repeated(table.schema)).nbytes
    with BaseFileWriter(
        storage, "big.parquet", table.schema, "{}", bloom=SMALL, layout=FileLayout(row_group_bytes=size // 8)
    ) as writer:
        sizes = [writer.bytes_written]
        for start in range(0, 20_000, 500):
            writer.write(table.slice(start, 500))
            sizes.append(writer.bytes_written)
            assert writer._pending_bytes < size // 8
        summary = writer.close()
    assert max(sizes) < 1.5 * summary.size
    assert sizes[-1] > 0.5 * summary.size
    assert summary.num_rows == writer.num_rows == 20_000
    assert summary.size == writer.bytes_written == len(storage.read("big.parquet"))
    with open_parquet(storage, "big.parquet") as file:
        groups = file.metadata.num_row_groups
        first = file.metadata.row_group(0).num_rows
    assert 7 <= groups <= 9
    assert read(storage, "big.parquet", batch_rows=777).equals(table)
    assert read(storage, "big.parquet", row_groups=[0]).equals(table.slice(0, first))
    assert read(storage, "big.parquet", row_groups=[1, groups - 1]).num_rows < 2 * first + 1

    whole = BaseFileWriter(
        storage, "w.parquet", table.schema, "{}", bloom=None, layout=FileLayout(row_group_bytes=size // 8)
    )
    whole.write(table)
    assert whole.close() == whole.close()
    with open_parquet(storage, "w.parquet") as file:
        assert 7 <= file.metadata.num_row_groups <= 9


def test_columns_by_name(storage: Storage) -> None:
    table = rows(["a", "b"], x=pa.array([1, 2]), y=pa.array([{"x": 1, "z": 2}, None]))
    path = written(storage, table)
    found = read(storage, path, ["y", "missing", "_hoodie_record_key"])
    assert found.column_names == ["y", "_hoodie_record_key"]
    assert found.equals(table.select(found.column_names))
    assert [batch.num_rows for batch in iter_base_batches(storage, path, ["missing"], batch_rows=1)] == [1, 1]
    assert [batch.num_columns for batch in iter_base_batches(storage, path, [])] == [0]


def test_repetitive_columns_are_plain_strings(storage: Storage) -> None:
    count = 5000
    table = rows([str(at) for at in range(count)])
    times = pa.array(["001" if at < 4000 else "002" for at in range(count)])
    table = table.set_column(0, "_hoodie_commit_time", times)
    names = pa.array([None if at == 7 else "f" for at in range(count)])
    table = table.set_column(4, "_hoodie_file_name", names)
    path = written(storage, table, layout=FileLayout(row_group_bytes=100_000))
    found = read(storage, path, batch_rows=300)
    assert found.equals(table)
    assert {field.type for field in found.schema} == {pa.string()}


def test_rows_are_matched_by_name_and_cast(storage: Storage) -> None:
    schema = pa.schema([*META, pa.field("n", pa.int64()), pa.field("r", pa.string(), nullable=False)])
    with BaseFileWriter(storage, "f.parquet", schema, "{}", bloom=SMALL) as writer:
        table = rows(["a"], r=pa.array(["x"]).dictionary_encode(), n=pa.array([1], pa.int32()))
        writer.write(table.select(list(reversed(table.column_names))))
        writer.write(table.to_batches()[0])
        with pytest.raises(SchemaMismatchError, match="column 'n' is missing"):
            writer.write(rows(["a"]))
        with pytest.raises(SchemaMismatchError, match="column 'n' of type string to base file"):
            writer.write(rows(["a"], n=pa.array(["x"]), r=pa.array(["x"])))
        with pytest.raises(SchemaMismatchError, match=r"'r' to base file .* has nulls"):
            writer.write(rows(["a"], n=pa.array([1]), r=pa.array([None], pa.string())))
    assert read(storage, "f.parquet")["n"].to_pylist() == [1, 1]


def test_a_failed_write_leaves_no_base_file(storage: Storage) -> None:
    def failing(table: pa.Table) -> None:
        with BaseFileWriter(
            storage, "f.parquet", table.schema, "{}", bloom=SMALL, layout=FileLayout(row_group_bytes=1)
        ) as writer:
            writer.write(table)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        failing(rows(["a"]))
    if storage.stat("f.parquet") is not None:
        with pytest.raises(CorruptFileError):
            read_footer(storage, "f.parquet")


TWO_LEVELS = pa.list_(pa.field("array", pa.int32(), nullable=False))


def test_two_level_lists_have_the_type_of_three_level_lists(storage: Storage, tmp_path: Path) -> None:
    table = pa.table({"arr": pa.array([[1, 2], None, []], pa.list_(pa.int32())), "n": pa.array([1, 2, 3])})
    two = pa.table({"arr": table["arr"].cast(TWO_LEVELS), "n": table["n"]})
    pq.write_table(two, tmp_path / "two.parquet", use_compliant_nested_type=False, store_schema=False)
    assert read_footer(storage, "two.parquet").schema == table.schema
    assert read(storage, "two.parquet").equals(table)


def test_int96_and_types_of_other_arrow_writers(storage: Storage, tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(1950, 1, 2, 3), None], pa.timestamp("us"))
    pq.write_table(pa.table({"t": moments}), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    assert read(storage, "old.parquet")["t"].combine_chunks().equals(moments.cast(pa.timestamp("us", "UTC")))
    table = pa.table(
        {
            "s": pa.array(["a"], pa.large_string()),
            "d": pa.array(["a"]).dictionary_encode(),
            "v": pa.array([["a"]], pa.large_list(pa.large_string())),
            "ms": pa.array([1], pa.timestamp("ms")),
        }
    )
    pq.write_table(table, tmp_path / "arrow.parquet")
    found = read(storage, "arrow.parquet")
    assert found.schema.types == [pa.string(), pa.string(), pa.list_(pa.string()), pa.timestamp("ms")]
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 100, b"PAR1" + bytes(50) + b"\xff\xff\xff\x7fPAR1"])
def test_files_that_are_not_parquet(storage: Storage, content: bytes) -> None:
    storage.put("f.parquet", content)
    with pytest.raises(CorruptFileError, match=r"Cannot read base file f\.parquet"):
        read_footer(storage, "f.parquet")
    with pytest.raises(CorruptFileError, match=r"Cannot read base file f\.parquet"):
        list(iter_base_batches(storage, "f.parquet", None))


def test_damaged_pages(storage: Storage) -> None:
    path = written(storage, rows([str(at) for at in range(100)]))
    data = bytearray(storage.read(path))
    data[4:60] = bytes(56)
    storage.put(path, bytes(data))
    with pytest.raises(CorruptFileError, match="Cannot read base file"):
        list(iter_base_batches(storage, path, None))


def test_missing_file(storage: Storage) -> None:
    assert isinstance(storage, LocalStorage)
    with pytest.raises(FileNotFoundError):
        read_footer(storage, "none.parquet")
    with pytest.raises(FileNotFoundError):
        list(iter_base_batches(storage, "none.parquet", None))


def test_memory_storage() -> None:
    storage = open_storage("memory://parquet-test")
    table = rows(["a", "b"])
    assert read(storage, written(storage, table)).equals(table)


@pytest.mark.parametrize("error", [pa.ArrowIndexError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError])
def test_what_arrow_raises_of_damaged_pages_is_corruption(error: type[Exception]) -> None:
    with pytest.raises(CorruptFileError, match="Cannot read base file f: Index 0 out of bounds"), damage_named("f"):
        raise error("Index 0 out of bounds")


def statistics(storage: Storage, path: str) -> list[dict[str, bool]]:
    """For each row group its columns, and whether they have bounds."""
    with open_parquet(storage, path) as file:
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        columns = [[group.column(at) for at in range(group.num_columns)] for group in groups]
        return [{each.path_in_schema: each.is_stats_set and each.statistics.has_min_max for each in c} for c in columns]


@pytest.mark.parametrize("late", [False, True], ids=["in the first row group", "in a later one"])
def test_columns_with_nan_have_no_bounds(storage: Storage, late: bool) -> None:
    """Bounds leave NaN out, and readers who trust them miss the rows with one."""
    count = 40
    numbers = [float(n) for n in range(count)]
    numbers[-1 if late else 0] = float("nan")
    table = rows(
        [f"k{n}" for n in range(count)],
        x=pa.array(numbers, pa.float64()),
        y=pa.array(range(count), pa.float32()),
        s=pa.array([{"in": n} for n in numbers], pa.struct([("in", pa.float64())])),
        l=pa.array([[1.0]] * count, pa.list_(pa.float64())),
        m=pa.array([[("a", 1.0)]] * count, pa.map_(pa.string(), pa.float64())),
    )
    options: dict[str, Any] = {"bloom": SMALL, "layout": FileLayout("snappy", table.nbytes // 4)}
    with BaseFileWriter(storage, "f.parquet", table.schema, '"avro"', **options) as writer:
        for start in range(0, count, 5):
            writer.write(table.slice(start, 5))
        summary = writer.close()
    assert summary.nan == {"x", "s.in"}
    info = storage.stat("f.parquet")
    assert info is not None
    assert info.size == summary.size
    assert [info.name for info in storage.list()] == ["f.parquet"]
    groups = statistics(storage, "f.parquet")
    assert len(groups) > 1
    for group in groups:
        assert [name for name, bounds in group.items() if not bounds] == ["x", "s.in"]
    assert {"l.list.element", "m.key_value.key", "m.key_value.value"} <= groups[0].keys()
    found = read(storage, "f.parquet")
    assert [str(n) for n in found["x"].to_pylist()] == [str(n) for n in numbers]
    assert found.drop_columns(["x", "s"]).equals(table.drop_columns(["x", "s"]))
    footer = pq.read_metadata(pa.BufferReader(storage.read("f.parquet"))).metadata
    assert footer[b"hudi_py.nan_columns"] == b"s.in,x"
    assert footer[b"hoodie_min_record_key"] == b"k0"


@pytest.mark.parametrize("name", ["fare", "_hoodie_record_key", "place", "city", "stops", "minute"])
def test_a_damaged_name_of_a_column_is_not_a_missing_column(tmp_path: Path, name: str) -> None:
    place = {"city": "oslo", "minute": 1}
    hudi_py.write(tmp_path, [{"id": "a", "fare": 1.5, "place": place, "stops": [place]}], record_key="id")
    (file,) = tmp_path.glob("*.parquet")
    whole = file.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    place_of_name = whole.index(name.encode(), footer)  # Parquet's own schema comes first
    damaged = bytearray(whole)
    damaged[place_of_name] ^= 1
    file.write_bytes(damaged)
    table, told = hudi_py.open_table(tmp_path), "the columns that its footer lists differ"
    with pytest.raises(CorruptFileError, match=told):
        table.scan().to_table()
    with pytest.raises(CorruptFileError, match=told):
        table.upsert([{"id": "a", "fare": 2.5, "place": place, "stops": []}])
    assert table.doctor().of("files.corrupt")
    file.write_bytes(whole)
    assert hudi_py.open_table(tmp_path).scan(["id", "fare", "place", "stops"]).to_table().num_rows == 1


def test_repeated_meta_columns_stay_dictionaries_when_values_change(storage: Storage) -> None:
    """The first value of a later batch, and plain strings after dictionaries, do not end them in the file."""
    table = rows(["a", "b", "c", "d"])
    name = table.schema.get_field_index("_hoodie_file_name")
    other = table.set_column(name, "_hoodie_file_name", pa.array(["x", "y", "x", None]))
    held = in_schema(other, with_repeated(table.schema))
    path = written(storage, pa.concat_tables([table, other]))
    with BaseFileWriter(storage, "f.parquet", table.schema, "{}", bloom=SMALL) as writer:
        for some in (table, held, other):
            writer.write(some)
    found = read(storage, "f.parquet")
    assert found.equals(pa.concat_tables([table, other, other]).combine_chunks())
    assert found.schema == read(storage, path).schema
    with open_parquet(storage, "f.parquet") as file:
        column = file.metadata.row_group(0).column(name)
        assert "PLAIN" not in column.encodings
        assert (column.statistics.null_count, column.statistics.max) == (2, "y")


def test_a_flush_ends_the_row_group(storage: Storage) -> None:
    with BaseFileWriter(storage, "f.parquet", rows(["a"]).schema, "{}", bloom=SMALL) as writer:
        for keys in (["a", "b"], ["c"]):
            writer.write(rows(keys))
            writer.flush()
            writer.flush()
    with open_parquet(storage, "f.parquet") as file:
        assert [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)] == [2, 1]
        footer = read_footer(storage, "f.parquet")
        assert (footer.min_key, footer.max_key) == ("a", "c")


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (8, 3), (98, 905), (99_999, 1), (10**12, 2)])
def test_numbered_texts(first: int, count: int) -> None:
    texts = numbered("20240101_0_", first, count)
    texts.validate(full=True)
    assert texts.to_pylist() == [f"20240101_0_{number}" for number in range(first, first + count)]


def test_numbers_of_rows_that_contradict_each_other(storage: Storage) -> None:
    path = written(storage, rows(list("abcde")))
    whole, data = read(storage, path), storage.read(path)
    footer = len(data) - 8 - pq.read_metadata(pa.BufferReader(data)).serialized_size
    five, four = b"\x16\x0a", b"\x16\x08"  # the next field, an i64
    errors = []
    for at in range(footer, len(data)):
        if data[at : at + 2] == five:
            storage.put(path, data[:at] + four + data[at + 2 :])
            try:
                assert read(storage, path) == whole
            except CorruptFileError as error:
                errors.append(str(error))
    assert len(errors) == 2  # of the file, and of its row group; Arrow reads a page with more values than its chunk
    assert all("in its row groups; restore the file" in text for text in errors)


def test_a_column_chunk_without_values(storage: Storage) -> None:
    """Arrow gives no rows for it, and no error."""
    path = written(storage, rows(list("abcde")))
    data = storage.read(path)
    values = data.rindex(b"\x16\x0a", 0, data.rindex(b"\x16\x0a", 0, data.rindex(b"\x16\x0a")))
    storage.put(path, data[: values + 1] + b"\x00" + data[values + 2 :])
    with pytest.raises(CorruptFileError, match=r"p=1/f\.parquet: 5 rows fewer than its footer records; restore"):
        read(storage, path)
