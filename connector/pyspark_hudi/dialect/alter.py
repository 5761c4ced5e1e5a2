"""ALTER TABLE: columns, names and properties of tables (`AlterTableCommand`, `Spark3DDLRule`, 1.2.0)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from hudi_py.config import Options, Scope
from hudi_py.errors import ConfigError
from pyspark_hudi import calls, catalog
from pyspark_hudi.dialect.columns import columns_of
from pyspark_hudi.dialect.create import OF_CREATION, default_path
from pyspark_hudi.dialect.descriptors import SqlStatement
from pyspark_hudi.dialect.insert import delete_partition, partition_spec, path_of_partition
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor, properties, property_key
from pyspark_hudi.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_TABLES = frozenset(
    {"primarykey", "type", "precombinefield", "orderingfields", "payloadclass", "recordmergemode", "provider"}
)
"""Properties that a table gets when it is created, for good."""
_SUPPORTED = (
    "supported: ADD COLUMNS, RENAME COLUMN, DROP COLUMNS, ALTER COLUMN, CHANGE COLUMN, RENAME TO, SET and UNSET "
    "TBLPROPERTIES, ADD and DROP PARTITION"
)


@dataclass(slots=True)
class _ColumnChanges:
    """Column changes, in the form of `hudi_py.schema.changes.changes_of`."""

    found: list[dict[str, Any]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    """Types in Spark's notation; changes refer to them by number."""

    def add(self, change: str, path: str, **more: object) -> None:
        self.found.append({"change": change, "path": path, **more})

    def type(self, text: str) -> str:
        self.types.append(text)
        return f"c{len(self.types) - 1}"


def alter(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs ALTER TABLE. Returns None if it is not a Hudi table."""
    if not cursor.take("ALTER", "TABLE"):
        return None
    target = tables.find(cursor.names())
    if target is None:
        return None
    kinds = [(verb, what) for verb in ("SET", "UNSET") for what in ("TBLPROPERTIES", "SERDEPROPERTIES")]
    of_entry = cursor.sees("RENAME", "TO") or any(cursor.sees(*kind) for kind in kinds)
    if target.of_catalog and of_entry:
        return None
    if cursor.take("RENAME", "TO"):
        _rename_table(target, cursor)
    elif cursor.take("SET", "TBLPROPERTIES") or cursor.take("SET", "SERDEPROPERTIES"):
        _set_properties(target, cursor)
    elif cursor.take("UNSET", "TBLPROPERTIES"):
        _unset_properties(target, cursor)
    elif cursor.sees("DROP", "PARTITION") or cursor.sees("DROP", "IF", "EXISTS", "PARTITION"):
        cursor.need("DROP")
        cursor.take("IF", "EXISTS")
        spec = partition_spec(cursor)
        cursor.take("PURGE")
        cursor.finish()
        delete_partition(target, spec)
    elif cursor.sees("ADD", "PARTITION") or cursor.sees("ADD", "IF", "NOT", "EXISTS", "PARTITION"):
        _add_partitions(target, cursor)
    else:
        _alter_columns(target, _add_columns(target, cursor))
    return tables.nothing()


# -- partitions


def _add_partitions(target: StatementTarget, cursor: Cursor) -> None:
    """Adds partitions (`AlterHoodieTableAddPartitionCommand`, 1.2.0)."""
    cursor.need("ADD")
    quiet = cursor.take("IF", "NOT", "EXISTS")
    paths = []
    while cursor.token is not None:
        spec = partition_spec(cursor)
        if cursor.sees("LOCATION"):
            raise cursor.refused("a partition of a Hudi table is always in its folder, so LOCATION is not supported")
        cursor.take(",")
        paths.append(path_of_partition(target, spec))
    target.call(calls.make_partitions, paths, quiet)


# -- columns


def _alter_columns(target: StatementTarget, changes: _ColumnChanges) -> None:
    spark = target.spark
    if not changes.found:
        return
    listed = ", ".join(f"`c{index}` {text}" for index, text in enumerate(changes.types))
    types = arrow_schema(columns_of(spark, listed)) if listed else pa.schema([])
    target.call(calls.alter_columns, changes.found, types)
    if not (target.is_path or target.of_catalog):
        catalog.refresh(spark, target.name, target.path)


def _add_columns(target: StatementTarget, cursor: Cursor) -> _ColumnChanges:
    changes = _ColumnChanges()
    if cursor.take("ADD", "COLUMN") or cursor.take("ADD", "COLUMNS"):
        for part in _comma_parts(cursor.group() if cursor.sees("(") else cursor.rest()):
            _parse_added(changes, part)
    elif cursor.take("RENAME", "COLUMN"):
        path = ".".join(cursor.names())
        cursor.need("TO")
        changes.add("rename", path, name=cursor.name())
    elif cursor.take("DROP", "COLUMN") or cursor.take("DROP", "COLUMNS"):
        if_exists = cursor.take("IF", "EXISTS")
        for part in _comma_parts(cursor.group() if cursor.sees("(") else cursor.rest()):
            names = part.names()
            part.finish()
            if not if_exists or _column_exists(target.schema, names):
                changes.add("drop", ".".join(names))
    elif cursor.take("ALTER") or cursor.take("CHANGE"):
        cursor.take("COLUMN")
        _parse_changed(changes, cursor)
    else:
        raise cursor.refused(_SUPPORTED)
    cursor.finish()
    return changes


def _parse_added(changes: _ColumnChanges, part: Cursor) -> None:
    path = ".".join(part.names())
    kind = _type_text(part)
    comment = part.constant() if part.take("COMMENT") else None
    changes.add("add", path, type=changes.type(kind), comment=comment)
    _parse_place(changes, part, path)
    if part.take("COMMENT"):
        changes.found[-2 if changes.found[-1]["change"] == "move" else -1]["comment"] = part.constant()
    if part.token is not None:
        raise part.refused("a new column takes a type, COMMENT, FIRST or AFTER, and is nullable")


def _parse_changed(changes: _ColumnChanges, cursor: Cursor) -> None:
    path = ".".join(cursor.names())
    if cursor.take("TYPE"):
        changes.add("type", path, type=changes.type(_type_text(cursor)))
    elif cursor.take("COMMENT"):
        changes.add("comment", path, comment=cursor.constant())
    elif cursor.take("DROP", "NOT", "NULL"):
        changes.add("nullable", path, nullable=True)
    elif cursor.take("SET", "NOT", "NULL"):
        changes.add("nullable", path, nullable=False)
    elif cursor.sees("FIRST") or cursor.sees("AFTER"):
        _parse_place(changes, cursor, path)
    elif cursor.token is not None and cursor.token.is_name:  # CHANGE COLUMN old new type, as in Hive
        name = cursor.name()
        parent = path.rpartition(".")[0]
        if name.lower() != path.rpartition(".")[2].lower():
            changes.add("rename", path, name=name)
            path = f"{parent}.{name}" if parent else name
        changes.add("type", path, type=changes.type(_type_text(cursor)))
        if cursor.take("COMMENT"):
            changes.add("comment", path, comment=cursor.constant())
        _parse_place(changes, cursor, path)
    else:
        raise cursor.refused("expected TYPE, COMMENT, FIRST, AFTER, DROP NOT NULL, or a new name and type")


def _parse_place(changes: _ColumnChanges, cursor: Cursor, path: str) -> None:
    if cursor.take("FIRST"):
        changes.add("move", path, place="first")
    elif cursor.take("AFTER"):
        changes.add("move", path, place="after", other=cursor.name())


def _type_text(cursor: Cursor) -> str:
    """Returns the text of a type, up to the clauses that may follow it."""
    start = cursor.at
    for _ in _outside_brackets(cursor):
        if any(cursor.sees(word) for word in ("COMMENT", "FIRST", "AFTER", "NOT", "DEFAULT", "GENERATED")):
            break
    text = Cursor(cursor.text, cursor.tokens, start, cursor.at).source
    if not text:
        raise cursor.refused("expected a type")
    return text


def _comma_parts(cursor: Cursor) -> Iterator[Cursor]:
    """Yields the parts between commas; types such as MAP<STRING, INT> contain commas of their own."""
    while cursor.token is not None:
        start = cursor.at
        for _ in _outside_brackets(cursor):
            if cursor.sees(","):
                break
        yield Cursor(cursor.text, cursor.tokens, start, cursor.at)
        cursor.take(",")


def _outside_brackets(cursor: Cursor) -> Iterator[None]:
    """Yields at each token outside of brackets."""
    depth = 0
    while (token := cursor.token) is not None:
        if depth == 0:
            yield
        if token.kind == "word":
            depth += sum((char in "(<[") - (char in ")>]") for char in token.text)
        cursor.at += 1


def _column_exists(schema: StructType, names: tuple[str, ...]) -> bool:
    kind: DataType = schema
    for name in names:
        if isinstance(kind, StructType):
            kinds = [item.dataType for item in kind if item.name.lower() == name.lower()]
        elif isinstance(kind, ArrayType):
            kinds = [kind.elementType] if name.lower() == "element" else []
        else:
            kinds = [kind.valueType] if isinstance(kind, MapType) and name.lower() == "value" else []
        if not kinds:
            return False
        kind = kinds[0]
    return True


# -- names and properties


def _rename_table(target: StatementTarget, cursor: Cursor) -> None:
    """Renames the table in the catalog and in its properties; the files of a table without LOCATION move to the new
    name's location (`AlterHoodieTableRenameCommand`, 1.2.0)."""
    new = cursor.names()
    cursor.finish()
    if target.is_path:
        raise ConfigError(
            f"Cannot rename {target.shown}: a table named by its path has no name; register_sql gives it one"
        )
    if len(new) == 1 and "." in target.name:
        new = (target.name.rpartition(".")[0], *new)
    name, path = ".".join(new), target.path
    catalog.check_new(target.spark, target.name, name)
    if catalog.is_managed(target.spark, target.name):
        path = default_path(target.tables, new)
    target.call(calls.rename, new[-1], path)
    catalog.rename(target.spark, target.name, name, path)


def _set_properties(target: StatementTarget, cursor: Cursor) -> None:
    given = properties(cursor.group())
    cursor.finish()
    _check_keys(target, given)
    catalog.set_properties(target.spark, target.name, given)


def _unset_properties(target: StatementTarget, cursor: Cursor) -> None:
    cursor.take("IF", "EXISTS")
    keys = {}
    for part in cursor.group().parts():
        keys[property_key(part)] = ""
        part.finish()
    cursor.finish()
    _check_keys(target, keys)
    catalog.unset_properties(target.spark, target.name, list(keys))


def _check_keys(target: StatementTarget, given: Mapping[str, str]) -> None:
    if target.is_path:
        raise ConfigError(
            f"Cannot set properties of {target.shown}: the catalog keeps them, and it has no table named by a path"
        )
    for key in given:
        if key.lower() in _OF_TABLES or key in OF_CREATION or key == catalog.MANAGED:
            raise ConfigError(
                f"Cannot change the property '{key}' of {target.shown}: it is fixed when a table is created; "
                "leave it out"
            )
    Options.resolve({key: value for key, value in given.items() if key.startswith("hoodie.") and value}, Scope.WRITE)


STATEMENTS = (
    SqlStatement(
        ("ALTER TABLE",),
        alter,
        "`ALTER TABLE`",
        (
            "`ADD COLUMNS (a.b INT COMMENT '...' AFTER c, ...)`, `RENAME COLUMN a TO b`, `DROP COLUMNS (a, b)`, `ALTER "
            "COLUMN a TYPE BIGINT` (or `COMMENT`, `FIRST`, `AFTER b`, `DROP NOT NULL`), `CHANGE COLUMN a b BIGINT`; "
            "`RENAME TO` (also in `hoodie.properties`; a table without `LOCATION` moves; refused during a write), "
            "`SET` and `UNSET TBLPROPERTIES`, `ADD` and `DROP PARTITION`. To rename and drop, first `SET "
            "hoodie.schema.on.read.enable = true`; see [schema changes](schema.md)"
        ),
    ),
)
