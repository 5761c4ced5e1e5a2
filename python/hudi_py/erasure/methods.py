"""The methods of `Table` that erase rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow.compute as pc

from hudi_py.erasure.plan import plan_erasure
from hudi_py.erasure.report import ErasurePlan, ErasureReport
from hudi_py.erasure.run import erase
from hudi_py.read.request import key_texts
from hudi_py.services.context import ServiceContext


class ErasureMethods(ABC):
    """Erasing rows from every file of a table."""

    def erase(
        self,
        filter: str | pc.Expression | None = None,
        *,
        keys: str | Iterable[object] | None = None,
        delete_savepoints: bool = False,
        reference: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> ErasureReport:
        """Erases rows for good: deletes them, removes all older versions of their file groups, builds the indexes and
        the Iceberg metadata anew, then reads every file of the table again and reports what it found.

        Time travel to earlier states, and incremental and change queries from before, are impossible for these file
        groups afterwards. `docs/erasure.md` says what is erased, and what no program can find.

        Args:
            filter: rows for which it is true, of the newest state or of an older version; see `scan`. A row that does
                not satisfy it any more stays, and its older versions that did are removed.
            keys: record keys, in all partitions, instead of a filter; see `scan`.
            delete_savepoints: whether savepoints that keep files with the rows are deleted; otherwise they are in the
                way.
            reference: for the report, such as the number of a request.
            options: of writes and table services.

        Raises:
            ConflictError: a savepoint, a pending plan, a running write or something else is in the way. The message
                names all that is; nothing was changed.
            ConfigError, SchemaMismatchError: neither filter nor keys, or the filter does not fit the table.
            UnsupportedTableError: the table cannot be written, or its logs cannot be compacted.
        """
        with self._serving("erase rows of", options) as context:
            return erase(context, filter, _keys(keys), delete_savepoints=delete_savepoints, reference=reference)

    def preview_erase(
        self,
        filter: str | pc.Expression | None = None,
        *,
        keys: str | Iterable[object] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ErasurePlan:
        """What `erase` would do now, and what is in the way. Reads every file of the table, and changes nothing. For
        arguments and errors see there."""
        with self._serving("look for rows of", options) as context:
            return plan_erasure(context, filter, _keys(keys))

    @abstractmethod
    def _serving(self, title: str, options: Mapping[str, Any] | None = None) -> AbstractContextManager[ServiceContext]:
        """The context of one call."""


def _keys(given: str | Iterable[object] | None) -> frozenset[str] | None:
    texts = key_texts(given)
    return None if texts is None else frozenset(texts)
