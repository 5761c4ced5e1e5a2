"""Avro data blocks: the columnar codec against fastavro, row by row.

    python benchmarks/avro_codec.py [--rows N] [--repeat N]

For each case: CPU milliseconds of decoding a block into Arrow and of encoding it from Arrow, those of fastavro with
rows as Python dicts (in brackets with the way to or from Arrow), and how many times faster the codec is than that.
Rounds of all are interleaved; the best counts.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import io
import random
import struct
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from hudi_py.formats.avro import decode_log_content, encode_log_content

DATE = {"type": "int", "logicalType": "date"}
TIMESTAMP = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "fixed", "name": "fixed", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 4}
META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


def record(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields],
    }


NARROW = record(
    [
        ("key", "string"),
        ("name", "string"),
        ("i", "int"),
        ("l", "long"),
        ("f", "float"),
        ("d", "double"),
        ("b", "boolean"),
        ("raw", "bytes"),
        ("dec", DECIMAL),
        ("dt", DATE),
        ("ts", TIMESTAMP),
    ]
)
_KINDS: list[Any] = ["string", "int", "long", "double", "boolean", DATE, TIMESTAMP]
WIDE = record([(name, "string") for name in META] + [(f"c{i}", _KINDS[i % len(_KINDS)]) for i in range(35)])
LISTS = record(
    [
        ("key", "string"),
        ("ints", {"type": "array", "items": ["null", "int"]}),
        ("doubles", {"type": "array", "items": "double"}),
        ("tags", {"type": "map", "values": ["null", "string"]}),
    ]
)


def value(kind: Any, r: random.Random, items: int) -> Any:
    if isinstance(kind, dict):
        if kind["type"] == "array":
            return [value(kind["items"], r, 0) for _ in range(r.randrange(2 * items + 1))]
        if kind["type"] == "map":
            return {f"k{i}": value(kind["values"], r, 0) for i in range(r.randrange(2 * items + 1))}
        if kind is DECIMAL:
            return Decimal(r.randrange(-(10**12), 10**12)).scaleb(-4)
        if kind is DATE:
            return (START + datetime.timedelta(days=r.randrange(1000))).date()
        return START + datetime.timedelta(microseconds=r.randrange(10**14))
    if isinstance(kind, list):
        return None if r.random() < 0.1 else value(kind[1], r, items)
    makers: dict[str, Callable[[], Any]] = {
        "string": lambda: "v" * r.randrange(8) + str(r.randrange(10 ** r.randrange(1, 18))),
        "int": lambda: r.randrange(-(10**6), 10**6),
        "long": lambda: r.randrange(-(10**12), 10**12),
        "float": lambda: r.randrange(1000) / 8,
        "double": r.random,
        "boolean": lambda: r.random() < 0.5,
        "bytes": lambda: r.randbytes(r.randrange(24)),
    }
    return makers[kind]()


def rows_of(schema: dict[str, Any], count: int, items: int) -> list[dict[str, Any]]:
    r = random.Random(1)
    return [{f["name"]: value(f["type"], r, items) for f in schema["fields"]} for _ in range(count)]


def write_rows(parsed: Any, rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    out.write(struct.pack(">ii", 3, len(rows)))
    one = io.BytesIO()
    for row in rows:
        one.seek(0)
        one.truncate()
        fastavro.schemaless_writer(one, parsed, row)
        out.write(struct.pack(">i", one.tell()))
        out.write(one.getvalue())
    return out.getvalue()


def read_rows(parsed: Any, content: bytes) -> list[Any]:
    source, rows = io.BytesIO(content), []
    source.seek(8)
    while source.read(4):
        rows.append(fastavro.schemaless_reader(source, parsed, None))
    return rows


def best(calls: list[Callable[[], Any]], repeat: int) -> list[float]:
    """Smallest CPU milliseconds of each call."""
    found = [float("inf")] * len(calls)
    for _ in range(repeat):
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            found[i] = min(found[i], (time.process_time() - begin) * 1e3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    some = {"_hoodie_record_key", "c1", "c6"}
    cases: list[tuple[str, dict[str, Any], int, int, set[str] | None, int]] = [
        ("11 columns", NARROW, options.rows, 0, None, 1),
        ("40 columns", WIDE, options.rows // 2, 0, None, 1),
        ("3 of 40 columns", WIDE, options.rows // 2, 0, some, 1),
        ("11 columns, 20 blocks", NARROW, options.rows, 0, None, 20),
        ("lists of about 5", LISTS, options.rows, 5, None, 1),
        ("lists of about 1000", LISTS, max(options.rows // 400, 1), 1000, None, 1),
    ]
    print(
        f"{'case':24} {'decode ms':>10} {'fastavro':>10} {'ratio':>7} {'encode ms':>10} {'fastavro':>10} {'ratio':>7}"
    )
    for name, schema, count, items, columns, blocks in cases:
        parsed = fastavro.parse_schema(copy.deepcopy(schema))
        rows = rows_of(schema, count, items)
        size = -(-count // blocks)
        contents = [write_rows(parsed, rows[i : i + size]) for i in range(0, count, size)]
        batch = decode_log_content(contents, schema)
        assert encode_log_content(batch.slice(0, size), schema) == contents[0], "the codec and fastavro disagree"
        times = best(
            [
                lambda: decode_log_content(contents, schema, columns),  # noqa: B023
                lambda: [read_rows(parsed, content) for content in contents],  # noqa: B023
                lambda: pa.RecordBatch.from_pylist(rows, schema=batch.schema),  # noqa: B023
                lambda: encode_log_content(batch, schema),  # noqa: B023
                lambda: write_rows(parsed, rows),  # noqa: B023
                lambda: batch.to_pylist(),  # noqa: B023
            ],
            options.repeat,
        )
        decode, read, to_arrow, encode, write, from_arrow = times
        print(
            f"{name:24} {decode:10.1f} {read:9.1f} ({read + to_arrow:7.1f}) {(read + to_arrow) / decode:6.1f}x "
            f"{encode:10.1f} {write:9.1f} ({write + from_arrow:7.1f}) {(write + from_arrow) / encode:6.1f}x"
        )


if __name__ == "__main__":
    main()
