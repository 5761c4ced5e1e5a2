"""Orders the rows of clustered files: by columns one after the other, or by several at once along a curve that fills
their space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.arrays import double_codes
from hudi_py.services.clustering.curves import hilbert, hilbert_positions, interleaved, is_orderable, z_order
from hudi_py.services.clustering.ranks import RANK_BITS, Ranks, RowSample, Sampling, is_mapped, ranks_among

LINEAR: Final = "LINEAR"
_ZORDER: Final = "ZORDER"
_CURVES: Final[Mapping[str, Callable[[Sequence[pa.Array]], pa.Array]]] = {_ZORDER: z_order, "HILBERT": hilbert}
LAYOUTS: Final = (LINEAR, *_CURVES)
_KEY: Final = "_hudi_py_sort_{}"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order in which rows are sorted. Pickles."""

    columns: tuple[str, ...]
    layout: str = LINEAR
    sampling: Sampling | None = None
    """How rows are sampled for a curve by ranks; None: a curve is one by values."""
    ranks: Ranks | None = None
    """The ranks of a curve by ranks, once rows have been sampled."""

    @classmethod
    def of(
        cls, names: Sequence[str], layout: str, schema: pa.Schema, table: str, *, max_bounds: int | None = None
    ) -> RowOrder:
        """Returns the order by some columns of a schema.

        Args:
            names: columns, in any case, as Spark takes them.
            schema: the schema of base files, including meta columns.
            max_bounds: `Sampling.max_bounds` of a curve by ranks; None: curves are by values.

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
        if layout == LINEAR:
            return cls(columns)
        if max_bounds is None:
            return cls(tuple(sorted(columns, key=lambda name: _hash_order(schema, name))), layout)
        if all(is_mapped(schema.field(name).type) for name in columns):
            return cls(columns, layout, Sampling(max_bounds))
        return cls(tuple(sorted(columns, key=schema.get_field_index)), _ZORDER, Sampling(max_bounds, natural=True))

    @property
    def sorts(self) -> bool:
        """Whether rows are sorted; a curve by the values of a single column only divides them among files."""
        return bool(self.columns) and (self.layout == LINEAR or len(self.columns) > 1 or self.sampling is not None)

    def sampled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the values of rows that a sample needs, for a curve by ranks."""
        assert self.sampling is not None
        return self.sampling.comparable(self._values(batch))

    def ranked(self, samples: Sequence[RowSample]) -> RowOrder:
        """Returns the order by ranks among samples of `sampled` values."""
        assert self.sampling is not None
        return replace(self, ranks=ranks_among(self.sampling, samples))

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of `keys`."""
        return tuple(map(_KEY.format, range(len(self.columns) if self.layout == LINEAR else 1)))

    def keys(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Returns the columns by which Arrow sorts rows, under names that no column of a table has."""
        columns = self._values(batch)
        if self.layout == LINEAR:
            columns_of_keys = list(map(_as_comparable, columns))
        elif self.sampling is None:
            columns_of_keys = [_CURVES[self.layout](columns)]
        else:
            columns_of_keys = [self._ranked_key(self.sampling.comparable(columns))]
        return dict(zip(self.key_names, columns_of_keys, strict=True))

    def keys_of_sample(self, rows: pa.Table) -> pa.Table:
        """Returns the column by which rows are sorted along a curve by ranks, from `sampled` values."""
        return pa.table(
            {self.key_names[0]: pa.chunked_array([self._ranked_key(batch) for batch in rows.to_batches()], pa.binary())}
        )

    def _ranked_key(self, rows: pa.RecordBatch) -> pa.Array:
        assert self.ranks is not None
        numbers = self.ranks.of(rows)
        return interleaved(numbers) if self.layout == _ZORDER else hilbert_positions(numbers, RANK_BITS)

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [_decode_dictionary(batch.column(name)) for name in self.columns]


def _hash_order(schema: pa.Schema, name: str) -> int:
    """Returns the position of a column in the iteration order of a `java.util.HashMap`, by its number."""
    slots = 16
    while len(schema) > slots * 3 // 4:
        slots *= 2
    return int(schema.get_field_index(name)) % slots


def _decode_dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _as_comparable(column: pa.Array) -> pa.Array:
    """Converts a column so that Python and Arrow compare it alike."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pa.array(double_codes(column), mask=column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column
