"""Reports actions outside of writes, such as services, restores and column changes, to other systems."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hudi_py.config import Options
from hudi_py.errors import first_line
from hudi_py.interop.catalogs.run import CatalogSync
from hudi_py.interop.catalogs.settings import SyncSettings
from hudi_py.interop.iceberg.run import Republication
from hudi_py.interop.metrics import MetricsStep, Reporter
from hudi_py.model.instant import Action, Instant
from hudi_py.storage import Storage
from hudi_py.timeline.timeline import Timeline
from hudi_py.transaction.protocols import NoMetadata
from hudi_py.transaction.session import WriteTarget

_log = logging.getLogger(__name__)
_UNREGISTERED = frozenset({Action.CLEAN, Action.SAVEPOINT})
"""Actions that change nothing that catalogs store."""


@contextmanager
def announced(storage: Storage, options: Options) -> Iterator[None]:
    """Publishes the table to Iceberg, registers it with catalogs and reports metrics, as options request, if an action
    is completed in the context. Failures are warnings, unless options say otherwise.

    Args:
        options: of a call, with those of the storage.

    Raises:
        ConfigError: the options contradict each other; nothing was done.
        HudiError: see `CatalogSync.register`; everything done in the context stays done.
    """
    iceberg = Republication.of(storage, options.without_credentials())
    settings = SyncSettings.of(options)
    reporter = Reporter.of(options)
    if iceberg is None and settings is None and reporter is None:
        yield
        return
    session = WriteTarget(storage, options, NoMetadata()).session()
    before = {_instant_key(instant) for instant in session.timeline().completed}

    def new(timeline: Timeline) -> list[Instant]:
        return [instant for instant in timeline.completed if _instant_key(instant) not in before]

    yield
    try:
        done = new(session.timeline())
    except Exception as error:  # whatever failed, the action is done
        _log.warning("other systems do not learn of the newest actions on %s: %s", storage.uri, first_line(error))
        return
    if not done:
        return
    if iceberg is not None:
        iceberg.run(done)
    if settings is not None and any(instant.action not in _UNREGISTERED for instant in done):
        CatalogSync(settings).register(session, f"{done[0].action.value} {done[0].time}")
    if reporter is not None:
        MetricsStep(reporter).report(session, new)


def _instant_key(instant: Instant) -> tuple[str, str]:
    return instant.time, instant.action.comparable.value
