"""Reads base files of any format in the table's schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from hudi_py.errors import UnsupportedTableError
from hudi_py.formats.base_files import iter_base_batches, read_footer
from hudi_py.formats.orc import iter_orc_batches, stripe_sizes
from hudi_py.formats.parquet import iter_base_batches as iter_parquet_batches
from hudi_py.formats.parquet import open_parquet
from hudi_py.model.files import BaseFile
from hudi_py.model.zones import local_zone_name
from hudi_py.read.bootstrap import bootstrap_batches, folder_values
from hudi_py.read.filter import Filter
from hudi_py.read.prune_row_groups import row_groups_to_read
from hudi_py.read.support import BASE_FORMATS
from hudi_py.schema import SchemaHistory, conform
from hudi_py.storage import Storage
from hudi_py.view.bootstrap import METADATA_INSTANT

BASE_ROWS = 131_072
"""Default number of rows in a batch."""


def read_base(
    storage: Storage,
    base_file: BaseFile,
    schema: pa.Schema,
    *,
    batch_rows: int = BASE_ROWS,
    row_groups: Sequence[int] | None = None,
    history: SchemaHistory | None = None,
) -> Iterator[pa.RecordBatch]:
    """A base file's rows with the columns of `schema`.

    Args:
        base_file: Parquet, ORC or Lance, by its extension.
        schema: columns of the result; columns that the file lacks are null.
        batch_rows: maximum rows of a batch.
        row_groups: read only these row groups (ORC: stripes), by number.
        history: maps columns of the file to those of `schema`; None: by name.

    Raises:
        CorruptFileError: the file is damaged.
        FileNotFoundError: the file does not exist.
        SchemaMismatchError: a column's type cannot be converted to that of `schema`.
        UnsupportedTableError: the file has another format.
    """
    source, instant = base_file.source, base_file.instant
    names = schema.names if history is None or source is not None else history.columns(instant, schema.names)
    for batch in stored_batches(storage, base_file, names, batch_rows=batch_rows, row_groups=row_groups):
        if source is not None:
            yield conform(folder_values(source, batch, schema), schema, context=source)
        elif history is None:
            yield conform(batch, schema, context=base_file.path)
        else:
            yield history.conform(batch, instant, schema, context=base_file.path)


def count_rows(storage: Storage, base_file: BaseFile) -> int:
    """Number of rows of a base file, from its footer. Raises what `read_base` raises."""
    _extension(storage, base_file)
    return read_footer(storage, base_file.path).num_rows


def row_group_sizes(storage: Storage, base_file: BaseFile) -> list[int]:
    """Bytes of each row group (ORC: stripe) of a base file, from its footer; empty if it can only be read as a whole.

    Raises what `read_base` raises.
    """
    extension = _extension(storage, base_file)
    if base_file.source is not None or extension == "lance":
        return []
    if extension == "orc":
        return stripe_sizes(storage, base_file.path)
    with open_parquet(storage, base_file.path) as file:
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        return [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]


def row_groups_matching(
    storage: Storage,
    base_file: BaseFile,
    given: tuple[int, int] | None,
    condition: Filter | None,
    history: SchemaHistory | None = None,
) -> list[int] | None:
    """The row groups that may hold rows that satisfy a filter; None: all of the file.

    Args:
        given: half-open range of row groups to choose from; None: all.
        condition: has no effect on ORC and Lance files, whose readers expose no statistics.
        history: as in `read_base`; files whose columns it does not resolve by name are not pruned.
    """
    among = None if given is None else range(*given)
    prunes = condition is not None and any(True for _ in condition.conjuncts())
    if base_file.source is not None:
        return None
    named = history is None or (not history.repairs and history.sources(base_file.instant) is None)
    if condition is None or not prunes or not named or _extension(storage, base_file) != "parquet":
        return None if among is None else list(among)
    with open_parquet(storage, base_file.path) as file:
        every = range(file.metadata.num_row_groups)
        kept = row_groups_to_read(file, every if among is None else among, condition)
    return None if among is None and len(kept) == len(every) else kept


def stored_batches(
    storage: Storage,
    base_file: BaseFile,
    columns: Collection[str],
    *,
    batch_rows: int = BASE_ROWS,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read_base`, but in the types of the file and without the columns that it lacks."""
    path = base_file.path
    if base_file.source is None and base_file.instant == METADATA_INSTANT:
        raise UnsupportedTableError(
            f"Cannot read base file {storage.uri}/{path}: it was bootstrapped without its rows, and the "
            "table has no bootstrap index that names its source; only tables with that index are supported"
        )
    if base_file.source is not None:
        return bootstrap_batches(storage, base_file, columns, batch_rows=batch_rows, zone=local_zone_name())
    extension = _extension(storage, base_file)
    if extension == "orc":
        return iter_orc_batches(
            storage, path, columns, batch_rows=batch_rows, stripes=row_groups, zone=local_zone_name()
        )
    if extension == "parquet":
        return iter_parquet_batches(storage, path, columns, batch_rows=batch_rows, row_groups=row_groups)
    return iter_base_batches(storage, path, columns, batch_rows=batch_rows)


def _extension(storage: Storage, base_file: BaseFile) -> str:
    extension = base_file.name.extension
    if extension not in BASE_FORMATS:
        raise UnsupportedTableError(
            f"Cannot read base file {storage.uri}/{base_file.path}: its format is {extension}; supported are "
            f"{', '.join(BASE_FORMATS)}"
        )
    return extension
