"""The table services by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.services.archive import archive
from hudi_py.services.bucket_resize import resize_buckets
from hudi_py.services.buckets import rescale_buckets
from hudi_py.services.clean import Cleaning
from hudi_py.services.compaction import Compaction
from hudi_py.services.context import ServiceContext
from hudi_py.services.log_compaction import LogCompaction
from hudi_py.services.planned.report import ServiceReport
from hudi_py.services.planned.service import AnyService
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint

PLANNED: Final[Mapping[str, AnyService[ServiceReport]]] = {
    service.name: service
    for service in (Compaction(always=True, local=False), LogCompaction(always=True, local=False), Cleaning())
}
"""Services with a plan, whose tasks any process may execute."""
WHEN_DUE: Final[Mapping[str, AnyService[ServiceReport]]] = {"compaction": Compaction(local=False)}
"""Those that plan only what is due, for calls that ask for it."""


def _archive(context: ServiceContext, instant: str | None) -> ServiceReport:
    return archive(context)


SINGLE_STEP: Final[Mapping[str, Callable[..., ServiceReport]]] = {
    "archive": _archive,
    "savepoint": create_savepoint,
    "delete_savepoint": delete_savepoint,
    "rollback": rollback,
    "restore": restore,
    "unschedule": unschedule,
    "rescale_buckets": rescale_buckets,
    "resize_buckets": resize_buckets,
}
"""Services without a plan, which one process runs: functions of a context, an instant or None, and keywords."""
NAMES: Final = (*PLANNED, *SINGLE_STEP)
_NEED_AN_INSTANT: Final = ("delete_savepoint", "rollback", "restore", "unschedule")
_NO_INSTANT: Final = ("archive", "rescale_buckets", "resize_buckets")
_ARGUMENTS: Final = {
    "compaction": ("when_due",),
    "savepoint": ("user", "comment"),
    "rollback": ("with_newer",),
    "rescale_buckets": ("expressions", "buckets", "add", "dry_run"),
}


def check_call(name: str, phase: str | None, instant: str | None, arguments: Collection[str] = ()) -> None:
    """Raises ConfigError if there is no such service, or an argument is missing or unknown."""
    if name not in NAMES:
        raise ConfigError(f"Cannot run the service {name!r}; services are {', '.join(NAMES)}")
    if instant is None and name in _NEED_AN_INSTANT:
        raise ConfigError(f"Cannot run the service {name} without an instant; give instant='...'")
    if instant is not None and (phase == "schedule" or name in _NO_INSTANT):
        raise ConfigError(
            f"Cannot run the service {name} with the instant {instant!r}: "
            + ("a new plan gets a new instant" if name in PLANNED else "it takes none")
            + "; leave it out"
        )
    known = _ARGUMENTS.get(name, ())
    for argument in arguments:
        if argument not in known:
            takers = [each for each, taken in _ARGUMENTS.items() if argument in taken]
            raise ConfigError(
                f"Cannot run the service {name} with {argument}: "
                + (f"only {', '.join(takers)} takes this argument; " if takers else "")
                + f"it takes {', '.join(known) or 'only options'}"
            )
