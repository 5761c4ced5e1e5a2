"""The ids of a table's columns. Every write to a table with schema on read stores them again.

Source: `BaseHoodieWriteClient.saveInternalSchema` and `commitTableChange` (1.2.0).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudi_py.model.instant import InstantTime
from hudi_py.schema.ids import UNSAVED, internal_json, with_meta_fields
from hudi_py.schema.internal import InternalSchema
from hudi_py.storage import Storage
from hudi_py.timeline.table_schema import LATEST_SCHEMA_KEY, SCHEMA_KEY, newest_history, write_history
from hudi_py.timeline.timeline import Timeline

if TYPE_CHECKING:
    from hudi_py.transaction.session import LockedTable


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """The schema after a write, with column ids. Pickles."""

    schema: InternalSchema
    """`UNSAVED` if the write changes it."""
    before: tuple[InternalSchema, ...] = ()
    """Earlier versions, oldest first, that the table does not have yet."""

    def of_write(self, instant: InstantTime) -> ColumnIds:
        """Returns the ids in the form in which the write of an instant stores them."""
        return replace(self, schema=replace(self.schema, version_id=int(instant))) if self.changes else self

    @property
    def changes(self) -> bool:
        """Whether the write changes the schema and does not have its instant yet."""
        return self.schema.version_id == UNSAVED

    def of_table(self, storage: Storage, timeline: Timeline) -> ColumnIds:
        """Returns the newest ids that a completed write has stored, instead of those of this write."""
        newest = newest_history(storage, timeline)
        return self if newest is None else ColumnIds(newest.versions[-1])

    def extra(self, schema_json: str) -> dict[str, str]:
        """Returns the schemas for a commit's extra metadata. `schema_json`: an Avro record; it gets meta columns here,
        as in Apache Hudi."""
        record = json.loads(schema_json)
        whole = {**record, "fields": with_meta_fields(record["fields"])}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
        return {SCHEMA_KEY: text, LATEST_SCHEMA_KEY: internal_json(self.schema)}

    def store(self, table: LockedTable, instant: InstantTime) -> None:
        """Writes the history file of an instant that is about to complete."""
        session = table.session
        completion = session.clock.next_completion(table.timeline, instant)
        write_history(session.storage, table.timeline, instant, completion, self.schema, self.before)
