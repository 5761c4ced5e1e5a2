"""Key generators with generated options and values, to be asked of hudi-py and of Apache Hudi."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from hudi_py.errors import HudiError
from hudi_py.model.properties import TableConfig
from hudi_py.write.rows.keygen import key_generator

Row = dict[str, Any]
Answer = tuple[str, str] | str
"""Record key and partition path, or why there are none."""

KINDS: Final = {
    "Simple": "SIMPLE",
    "Complex": "COMPLEX",
    "Custom": "CUSTOM",
    "TimestampBased": "TIMESTAMP",
    "Nonpartitioned": "NON_PARTITION",
}
WRITE: Final = "hoodie.datasource.write."
DATES: Final = "hoodie.keygen.timebased."
# dates and timestamps are their numbers here
COLUMNS: Final[dict[str, tuple[pa.DataType, Any]]] = {
    "s": (pa.string(), "string"),
    "e": (pa.string(), "string"),
    "i": (pa.int32(), "int"),
    "l": (pa.int64(), "long"),
    "b": (pa.bool_(), "boolean"),
    "x": (pa.float64(), "double"),
    "f": (pa.float32(), "float"),
    "at": (pa.string(), "string"),
    "tl": (pa.int64(), "long"),
    "ti": (pa.int32(), "int"),
    "tx": (pa.float64(), "double"),
    "d": (pa.date32(), {"type": "int", "logicalType": "date"}),
    "ts": (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
}
ODD: Final[Sequence[str | None]] = [
    *["", None, "a", "b c", "a:b", "a,b", "s:1,e:2", "a/b", "50%", "%2F", "%", "%%41", "__null__", "__empty__", "a\nb"],
    *[
        "\r\n",
        "\t",
        "\x01",
        "\x7f",
        "\U0001f600",
        "\ufffd",
        "\ue000x",
        "é",
        "e\u0301",
        "ß",
        " ",
        "  a ",
        "'",
        '"',
        "\\",
    ],
    *[
        "=",
        "a=b",
        "{}",
        "[]",
        "x" * 300,
        "null",
        ".",
        "..",
        "a.",
        ".hoodie",
        "~",
        "\u2028",
        "\u0085",
        "2024-01-02",
        "-",
    ],
    *["#", "?", "*", "^", "|", "default", "__HIVE_DEFAULT_PARTITION__", "İ", "\u200b", "+", "&", "\ufeff", "/", "a//b"],
    "\U0010ffff",
]
ZONES: Final = [
    *["UTC", "GMT", "GMT+8", "GMT-03:30", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Europe/London"],
    *["Europe/Amsterdam", "Africa/Monrovia", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe", "Europe/Dublin"],
    *["America/St_Johns", "Asia/Tokyo", "Antarctica/Troll", "Etc/GMT+5", "US/Pacific", "", "Europe/Moscow"],
]
OUTPUTS: Final = [
    *["yyyy", "yy", "MM", "M", "dd", "d", "HH", "H", "hh", "h", "a", "mm", "ss", "SSS", "S", "SSSSSS", "Z", "ZZ"],
    *["EEE", "EEEE", "MMM", "MMMM", "DDD", "D", "ww", "w", "xxxx", "e", "C", "k", "K", "YYYY", "y", "'T'", "''"],
]
INPUTS: Final = [
    *["yyyy-MM-dd", "yyyy/MM/dd", "yyyy-MM-dd'T'HH:mm:ssZ", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyyMMddHHmmss"],
    *["dd.MM.yyyy", "d MMM yyyy", "MM/dd/yy", "yyyy-DDD", "yyyy", "yyyy-MM", "hh:mm a dd-MM-yyyy", "MMMM d, yyyy"],
]
UNITS: Final = {
    "NANOSECONDS": 10**9,
    "microseconds": 10**6,
    "MILLISECONDS": 1000,
    "SECONDS": 1,
    "MINUTES": 1 / 60,
    "HOURS": 1 / 3600,
    "days": 1 / 86400,
}
NUMBERS: Final = {"UNIX_TIMESTAMP": 1, "EPOCHMILLISECONDS": 1000, "EPOCHMICROSECONDS": 10**6}
REFUSED_BY_US: Final = re.compile(
    r"path parts must not be empty|cannot read paths with a colon|for the name of the column|for the end of the value"
    r"|two hexadecimal digits|its name has \d+ bytes|years? (is not one of )?1 to 9999|truncated converting to int64"
    r"|has no year|which is not supported|has more than one of the letters"
)
"""What docs/differences.md names: paths that Apache Hudi does not read back, and times and patterns out of range."""


@dataclass(frozen=True)
class Layout:
    """A key generator: its class without package and `AvroKeyGenerator`, its options, and rows for it."""

    kind: str
    options: Mapping[str, str]
    rows: Sequence[Row]

    def of_ours(self) -> list[Answer] | str:
        """What hudi-py makes of each row; or why it refuses the options."""
        options = self.options
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.recordkey.fields": options[WRITE + "recordkey.field"],
            "hoodie.table.partition.fields": options[WRITE + "partitionpath.field"],
            "hoodie.table.keygenerator.type": KINDS[self.kind],
            **options,
        }
        try:
            generator = key_generator(TableConfig(properties))
        except HudiError as error:
            return str(error)
        answers: list[Answer] = []
        for row in self.rows:
            batch = batch_of([row])
            try:
                key, path = generator.record_keys(batch)[0].as_py(), generator.partition_paths(batch)[0].as_py()
            except HudiError as error:
                answers.append(str(error))
            else:
                answers.append((key, path))
        good = [at for at, answer in enumerate(answers) if not isinstance(answer, str)]
        if good:
            batch = batch_of([self.rows[at] for at in good])
            keys, paths = generator.record_keys(batch).to_pylist(), generator.partition_paths(batch).to_pylist()
            assert list(zip(keys, paths, strict=True)) == [answers[at] for at in good], "rows depend on each other"
        return answers

    def avro(self) -> tuple[str, list[str]]:
        """Schema and rows as Avro's JSON."""
        kinds = {name: kind if isinstance(kind, str) else kind["type"] for name, (_, kind) in COLUMNS.items()}
        fields = [{"name": name, "type": ["null", kind]} for name, (_, kind) in COLUMNS.items()]
        rows = [
            json.dumps({name: None if row[name] is None else {kind: row[name]} for name, kind in kinds.items()})
            for row in self.rows
        ]
        return json.dumps({"type": "record", "name": "r", "fields": fields}), rows


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Arrow."""
    columns = []
    for name, (kind, _) in COLUMNS.items():
        number = {"d": pa.int32(), "ts": pa.int64()}.get(name)
        values = pa.array([row[name] for row in rows], number or kind)
        columns.append(values.cast(kind))
    return pa.record_batch(columns, names=list(COLUMNS))


def layout(seed: str, count: int = 12) -> Layout:
    """A layout and so many rows for it."""
    rnd = random.Random(seed)
    kind = rnd.choice([*KINDS, "Custom", "TimestampBased"])
    type_name = rnd.choice([*NUMBERS, "SCALAR", "DATE_STRING", "MIXED"])
    patterns = rnd.sample(INPUTS, rnd.choice([1, 1, 2, 3]))
    keys = rnd.sample(["s", "e", "i", "l", "b", "x", "f", "d", "ts"], rnd.choice([1, 1, 2, 3]))
    if kind in ("Simple", "TimestampBased"):
        keys = keys[:1]
    time = "at" if type_name in ("DATE_STRING", "MIXED") else rnd.choice(["tl", "tl", "ti", "tx", "ts", "d"])
    options = {WRITE + "recordkey.field": ",".join(keys)}
    options[WRITE + "partitionpath.field"] = _partition(rnd, kind, time)
    for name in ("hive_style_partitioning", "partitionpath.urlencode"):
        if rnd.random() < 0.5:
            options[WRITE + name] = rnd.choice(["true", "false"])
    factor: float = NUMBERS.get(type_name, 1)
    if kind in ("Custom", "TimestampBased"):
        unit = rnd.choice([*UNITS])
        options |= _dates(rnd, type_name, unit, patterns)
        factor = UNITS[unit] if type_name == "SCALAR" else factor
    return Layout(kind, options, [_row(rnd, factor, patterns) for _ in range(count)])


def _partition(rnd: random.Random, kind: str, time: str) -> str:
    columns = list(dict.fromkeys(rnd.choice(["s", "e", "i", "l", "b", "x"]) for _ in range(3)))
    if kind == "Simple":
        return columns[0]
    if kind == "Complex":
        return ",".join(columns[: rnd.choice([1, 2, 3])])
    if kind == "TimestampBased":
        return time
    if kind == "Nonpartitioned":
        return ""
    fields = [f"{name}:{rnd.choice(['SIMPLE', 'simple'])}" for name in columns[: rnd.choice([0, 1, 2])]]
    if rnd.random() < 0.75 or not fields:
        fields.insert(rnd.randrange(len(fields) + 1), f"{time}:{rnd.choice(['TIMESTAMP', 'timestamp'])}")
    return ",".join(fields)


def _dates(rnd: random.Random, type_name: str, unit: str, patterns: Sequence[str]) -> dict[str, str]:
    separators = ["-", "/", " ", "_", ".", "", ", "]
    parts = [part for _ in range(rnd.choice([1, 2, 3, 4])) for part in (rnd.choice(OUTPUTS), rnd.choice(separators))]
    options = {DATES + "timestamp.type": type_name, DATES + "output.dateformat": "".join(parts)}
    if type_name == "SCALAR":
        options[DATES + "timestamp.scalar.time.unit"] = unit
    if type_name in ("DATE_STRING", "MIXED"):
        delimiter = rnd.choice([",", ";", "|"])
        options[DATES + "input.dateformat"] = delimiter.join(patterns)
        options[DATES + "input.dateformat.list.delimiter.regex"] = re.escape(delimiter)
    for name, share in (("timezone", 0.3), ("input.timezone", 0.5), ("output.timezone", 0.5)):
        if rnd.random() < share:
            options[DATES + name] = rnd.choice(ZONES)
    return options


def _row(rnd: random.Random, factor: float, patterns: Sequence[str]) -> Row:
    seconds = rnd.choice([rnd.randrange(-62135596800, 253402300800), rnd.randrange(-2_500_000_000, 2_600_000_000)])
    seconds = rnd.choice([seconds, seconds, seconds, rnd.choice([0, -1, 951782400, -1_830_384_000])])
    number = int(seconds * factor) + (rnd.randrange(int(factor)) if factor > 1 else 0)
    number = max(-(2**63), min(2**63 - 1, number))
    row: Row = {
        "s": rnd.choice(ODD),
        "e": rnd.choice(ODD),
        "i": rnd.choice([0, -1, 2**31 - 1, -(2**31), 7]),
        "l": rnd.choice([0, -1, 2**63 - 1, -(2**63), 10**15]),
        "b": rnd.choice([True, False]),
        "x": rnd.choice([0.0, -0.0, 1e-5, 1e7, 9999999.0, 0.001, 9e-4, rnd.random(), rnd.randrange(2**50) / 1024]),
        "f": rnd.choice([0.5, 16777215.0, 100.0]),
        "at": _text(rnd, rnd.choice(patterns), seconds),
        "tl": number,
        "ti": max(-(2**31), min(2**31 - 1, number)),
        "tx": float(number) + rnd.choice([0, 0.5, -0.25]),
        "d": rnd.randrange(-719162, 2932896),
        "ts": seconds * 10**6 + rnd.randrange(10**6),
    }
    return {name: None if rnd.random() < 0.06 else value for name, value in row.items()}


def _text(rnd: random.Random, pattern: str, seconds: int) -> str:
    """A time by a pattern, now and then with a character too many or too few."""
    time = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    values = {
        "yyyy": f"{time.year:04d}",
        "yy": f"{time.year % 100:02d}",
        "MMMM": f"{time:%B}",
        "MMM": f"{time:%b}",
        "MM": f"{time:%m}",
        "DDD": f"{time:%j}",
        "dd": f"{time:%d}",
        "d": str(time.day),
        "HH": f"{time:%H}",
        "hh": f"{time:%I}",
        "mm": f"{time:%M}",
        "ss": f"{time:%S}",
        "a": rnd.choice(["AM", "pm"]),
        "Z": rnd.choice(["+0530", "Z", "-08:00", "+0000"]),
        "'T'": "T",
    }
    words = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
    text = re.sub(words, lambda found: values[found[0]], pattern)
    wrong = [text.replace("0", "", 1), text + " ", " " + text, text[:-1], text.lower()]
    return rnd.choice([text] * 20 + wrong)
