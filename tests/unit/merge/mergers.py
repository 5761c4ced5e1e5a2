"""Mergers for tests, named by option as a user's would be."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hudi_py.merge import MergedRows, choose_rows


class Cheaper:
    """Keeps the row with the lower price, the newer of equals."""

    required_columns = ("price",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return choose_rows(pc.less_equal(newer["price"], older["price"]), newer, older)


class Adding:
    """Sums prices; a sum of more than 100 deletes the record."""

    required_columns = ("price",)

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> MergedRows:
        total = pc.add(older["price"], newer["price"])
        at = newer.schema.get_field_index("price")
        return MergedRows(newer.set_column(at, newer.schema.field(at), total), pc.greater(total, 100.0))


class TooShort:
    required_columns: tuple[str, ...] = ()

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return newer.slice(1)


class NotOne:
    """Has no columns and no method."""
