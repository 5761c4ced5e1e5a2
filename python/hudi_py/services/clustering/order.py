"""The order of rows in clustered files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.arrays import double_codes
from hudi_py.services.clustering.curves import hilbert, is_orderable, z_order

LINEAR: Final = "LINEAR"
_CURVES: Final[Mapping[str, Callable[[Sequence[pa.Array]], pa.Array]]] = {"ZORDER": z_order, "HILBERT": hilbert}
LAYOUTS: Final = (LINEAR, *_CURVES)
_KEY: Final = "_hudi_py_sort_{}"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """By what rows are sorted. Pickles."""

    columns: tuple[str, ...]
    layout: str = LINEAR

    @classmethod
    def of(cls, names: Sequence[str], layout: str, schema: pa.Schema, table: str) -> RowOrder:
        """Return the order by some columns of a schema.

        Args:
            names: columns, in any case, as Spark takes them.
            schema: of base files, meta columns included.

        Raises:
            ConfigError: there is no such column.
            UnsupportedTableError: rows cannot be sorted by the type of a column.
        """
        spelled = {name.lower(): name for name in reversed(schema.names)} | {name: name for name in schema.names}
        columns = tuple(dict.fromkeys(spelled.get(name) or spelled.get(name.lower(), "") for name in names))
        if "" in columns:
            raise ConfigError(
                f"Cannot sort the rows of the table '{table}' by {', '.join(names)}: its columns are "
                + ", ".join(schema.names)
            )
        for name in columns:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or (layout != LINEAR and not is_orderable(kind)):
                raise UnsupportedTableError(
                    f"Cannot sort the rows of the table '{table}' by '{name}' with the layout {layout}: rows cannot be "
                    f"ordered by the type {kind}; choose other columns"
                )
        if layout != LINEAR:
            columns = tuple(sorted(columns, key=lambda name: _turn(schema, name)))
        return cls(columns, layout)

    @property
    def sorts(self) -> bool:
        """Whether rows are sorted: a curve through one column only divides them among files."""
        return bool(self.columns) and (self.layout == LINEAR or len(self.columns) > 1)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of `keys`."""
        return tuple(map(_KEY.format, range(len(self.columns) if self.layout == LINEAR else 1)))

    def keys(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """What Arrow sorts rows by, under names that no column of a table has."""
        columns = [_decoded(batch.column(name)) for name in self.columns]
        found = list(map(_comparable, columns)) if self.layout == LINEAR else [_CURVES[self.layout](columns)]
        return dict(zip(self.key_names, found, strict=True))


def _turn(schema: pa.Schema, name: str) -> int:
    """The turn of a column, which is that of its number in a `java.util.HashMap`."""
    slots = 16
    while len(schema) > slots * 3 // 4:
        slots *= 2
    return int(schema.get_field_index(name)) % slots


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _comparable(column: pa.Array) -> pa.Array:
    """The column as Python and Arrow compare it alike."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pa.array(double_codes(column), mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column
