"""Partition specs and values, from the paths of Hudi's partitions and never from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_py.interop.iceberg.columns import Json
from hudi_py.interop.iceberg.metadata import FIRST_PARTITION_ID
from hudi_py.model.names import NULL_PARTITION, PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.read.partition import partition_values, path_parts, path_values, paths_hold_values


def values_of(config: TableConfig, schema: pa.Schema, path: PartitionPath, uri: str) -> dict[str, Any]:
    """The partition columns whose value all rows of a partition share, as far as its path says, with this value.

    Columns that are left out are read from the files. Raises UnsupportedTableError if the path lacks the value of a
    column that files do not have.
    """
    fields = [name for name in config.partition_fields if name in schema.names]
    known = partition_values(config, schema, path)
    parts = path_parts(config, path) if paths_hold_values(config) else None
    known |= {
        name: pa.scalar(None, schema.field(name).type) for name, text in (parts or {}).items() if text == NULL_PARTITION
    }
    known |= dict(path_values(config, schema, path, uri))
    return {name: known[name].as_py() for name in fields if name in known}


def hidden_columns(config: TableConfig) -> frozenset[str]:
    """Partition columns that writers leave out of files, or leave empty in them (`drop.partition.columns`)."""
    return frozenset(config.partition_fields) if config.drops_partition_columns else frozenset()


@dataclass(frozen=True, slots=True)
class Specs:
    """The partition specs of a table: the identity of some columns each."""

    known: tuple[Json, ...]
    added: tuple[Json, ...] = ()

    def with_columns(self, names: Iterable[str], ids: Mapping[str, int]) -> tuple[Specs, Json]:
        """The specs with one of these columns, and that one."""
        wanted = [(name, ids[name]) for name in names]
        for spec in (*self.known, *self.added):
            if [(field["source-id"], field["transform"]) for field in spec["fields"]] == [
                (number, "identity") for _, number in wanted
            ]:
                return self, spec
        every = [field for spec in (*self.known, *self.added) for field in spec["fields"]]
        numbers = {field["source-id"]: field["field-id"] for field in every if field["transform"] == "identity"}
        names_of = {field["source-id"]: field["name"] for field in every if field["transform"] == "identity"}
        following = max([FIRST_PARTITION_ID - 1, *(field["field-id"] for field in every)]) + 1
        fields = []
        for name, number in wanted:
            if number not in numbers:
                numbers[number], names_of[number], following = following, name, following + 1
            own = {"source-id": number, "field-id": numbers[number], "transform": "identity"}
            fields.append({**own, "name": names_of[number]})
        spec = {"spec-id": max(each["spec-id"] for each in (*self.known, *self.added)) + 1, "fields": fields}
        return Specs(self.known, (*self.added, spec)), spec
