"""VECTOR and BLOB in the text of column definitions. No JVM."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, ByteType, IntegerType, MapType, StringType, StructField, StructType

from hudi_py.errors import SchemaMismatchError
from pyspark_hudi.dialect.columns import _declared_field, _with_markers, column_type

MARK = "STRUCT<`__hudi_type`: STRING COMMENT '{}'>"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("emb VECTOR(3)", "emb [VECTOR(3)]"),
        ("vector vector (3, double) NOT NULL", "vector [vector (3, double)] NOT NULL"),
        ("blob BLOB, id INT", "blob [BLOB], id INT"),
        ("blob INT COMMENT 'a BLOB, b', x Blob", "blob INT COMMENT 'a BLOB, b', x [Blob]"),
        ('x Blob COMMENT "BLOB"', 'x [Blob] COMMENT "BLOB"'),
        ("`a BLOB` ARRAY<BLOB>", "`a BLOB` ARRAY<[BLOB]>"),
        ("s STRUCT<blob: BLOB, b: STRUCT<blob: INT>>", "s STRUCT<blob: [BLOB], b: STRUCT<blob: INT>>"),
        ("s STRUCT<blob BLOB NOT NULL, x BLOB>", "s STRUCT<blob [BLOB] NOT NULL, x [BLOB]>"),
        ("m MAP<STRING, BLOB>, blob STRING", "m MAP<STRING, [BLOB]>, blob STRING"),
        ("d DECIMAL(10, 2), b BLOB", "d DECIMAL(10, 2), b [BLOB]"),
        ("vectors ARRAY<FLOAT>, blobs INT", "vectors ARRAY<FLOAT>, blobs INT"),
    ],
)  # fmt: skip
def test_types_are_told_from_names(text: str, marked: str) -> None:
    expected = ""
    for part in marked.replace("]", "[").split("["):
        is_type = part.upper() == "BLOB" or (part.upper().startswith("VECTOR") and part.endswith(")"))
        expected += MARK.format(part) if is_type else part
    assert _with_markers(text) == expected


def mark(text: str) -> StructType:
    return StructType([StructField("__hudi_type", StringType(), metadata={"comment": text})])


def test_marks_become_types() -> None:
    found = _declared_field(StructField("e", mark("vector(2, int8)"), metadata={"comment": "x"}))
    assert found.dataType == ArrayType(ByteType(), False)
    assert found.metadata == {"comment": "x", "hudi_type": "VECTOR(2, INT8)"}
    assert column_type(found) == "VECTOR(2, INT8)"
    blobs = _declared_field(StructField("m", MapType(StringType(), ArrayType(mark("blob")))))
    assert blobs.metadata == {"hudi_type": "BLOB"}
    assert column_type(blobs) == "MAP<string, ARRAY<BLOB>>"
    inner = _declared_field(StructField("s", StructType([StructField("b", mark("BLOB"))])))
    assert isinstance(inner.dataType, StructType)
    assert inner.dataType["b"].metadata == {"hudi_type": "BLOB"}
    assert column_type(StructField("x", IntegerType())) == "int"


@pytest.mark.parametrize("text", ["VECTOR(0)", "VECTOR(2, HALF)"])
def test_vectors_that_are_refused(text: str) -> None:
    with pytest.raises(SchemaMismatchError, match="Column 'e' has the hudi_type"):
        _declared_field(StructField("e", mark(text)))
    with pytest.raises(SchemaMismatchError, match=r"a column 'a' of several VECTOR\(2\)"):
        _declared_field(StructField("a", ArrayType(mark("VECTOR(2)"))))


def test_texts_with_a_length() -> None:
    assert _with_markers("a varchar(10) NOT NULL, s STRUCT<b: VARCHAR (3)>") == "a STRING NOT NULL, s STRUCT<b: STRING>"
    assert _with_markers("varchar INT COMMENT 'VARCHAR(2)'") == "varchar INT COMMENT 'VARCHAR(2)'"
    for text in ("a CHAR(3)", "a character (3)"):
        with pytest.raises(SchemaMismatchError, match=r"of the type (CHAR|character ?)\(3\); supported: STRING"):
            _with_markers(text.replace(" (", "("))
