"""Conditions mean what they mean in Spark SQL: condition by condition, row by row of a golden table."""

from __future__ import annotations

import hudi_py
from hudi_py.expressions import parse_filter
from tests.golden.tables import Extracted
from tests.oracle.client import Oracle

CONDITIONS = r"""
id = 1
id <> 3 AND NOT (id > 20)
i > 0
i >= -1 OR l < 0
i = l
i <=> NULL
NOT (i <=> NULL)
i IS NULL
i IS NOT NULL AND b
b
NOT b
b IS TRUE
b IS NOT FALSE
b = 'true'
b <=> NULL OR i = 0
id IN (1, 3, 5, NULL)
id NOT IN (1, 3, 5, NULL)
id NOT IN (1, 3, 5)
i IN (0, -2147483648)
part IN ('p0', 'p2')
id BETWEEN 3 AND 9
id NOT BETWEEN 3 AND 9
i BETWEEN NULL AND 5
f = 0
f > 0.1
f = 0.1
f <= -1.5
f < d
d > 1000
d = 'NaN' OR d < 0
d <=> d
d IN (0, 1e300)
d = 0.0
dec5 > 1
dec5 = -0.01
dec5 < dec18
dec18 >= 990168263306.624677
dec38 > 0 AND dec30 IS NOT NULL
dec30 = 0
dec30 < id
dec5 <= 1.5e1
dec5 = '-0.01'
s = ''
s > 'a'
s >= 'e' AND s < 'n'
s LIKE '%a%'
s LIKE '_____%'
s NOT LIKE '%1%'
s LIKE 'b%h375'
s LIKE '%\\\\%'
s LIKE '%\n%'
s ILIKE 'BRAVO%'
s IS NULL AND id > 5
id = '5'
'5' < id
dt = '1969-07-08'
dt < DATE '1970-01-01'
dt >= '2000-01-01'
dt > TIMESTAMP '1992-09-25 00:00:00'
dt IN ('1992-09-25', '1969-07-08')
dt BETWEEN '1900-01-01' AND '1999-12-31'
tm > '2000-01-01'
tm > '2000-01-01 12:30:00'
tm < TIMESTAMP '2024-02-29 23:59:59.999999'
tm >= DATE '1970-01-01'
tm = '2068-12-01T20:30:37.917973Z'
tm > '2068-12-01 21:30:37.917973+02:00'
tn > '2020-01-01 00:00:00'
tn <= DATE '2030-01-01'
bin = X''
bin > X'3A'
st.a > 0
st.a IS NULL
st.b = 'x' OR st.c.d IS NOT NULL
st.c.e > 1.5
st.c.t < '2030-01-01'
st IS NOT NULL
arr IS NULL
m IS NOT NULL
id + 1 > 10
id * 2 - ver = 10
-id < -5
id > 2 AND (part = 'p1' OR (i IS NULL AND NOT (l = 0)))
TRUE
FALSE OR NULL
id = 3 OR NULL
NULL AND id = 3
_hoodie_record_key = '7'
_hoodie_partition_path LIKE 'part=p%'
""".strip().splitlines()


def test_conditions(oracle: Oracle, golden: Extracted) -> None:
    path = str(golden("v9_mor_all_types"))
    rows = hudi_py.open_table(path).scan().to_table()
    asked = ", ".join(f"({condition}) AS c{at}" for at, condition in enumerate(CONDITIONS))
    theirs = {row["id"]: row for row in oracle.sql(f"SELECT id, {asked} FROM {{table}}", path)}
    assert len(theirs) == rows.num_rows
    wrong: list[str] = []
    for at, condition in enumerate(CONDITIONS):
        try:
            parsed = parse_filter(condition, rows.schema)
        except hudi_py.ConfigError as error:
            wrong.append(str(error))
            continue
        assert parsed is not None
        for key, value in zip(rows["id"].to_pylist(), parsed.evaluate(rows).to_pylist(), strict=True):
            if value is not theirs[key].get(f"c{at}"):
                wrong.append(f"{condition}: {value} for row {key}, in Spark {theirs[key].get(f'c{at}')}")
    assert not wrong, "\n".join(wrong)
