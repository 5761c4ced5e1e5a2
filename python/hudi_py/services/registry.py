"""All table services, each with its description."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from hudi_py.errors import ConfigError
from hudi_py.services.archive.descriptor import ARCHIVE
from hudi_py.services.bucket_resize.service import BucketResizing
from hudi_py.services.buckets import rescale_buckets
from hudi_py.services.clean.descriptor import CLEAN
from hudi_py.services.compaction.descriptor import COMPACTION
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import Due, InstantArgument, Service
from hudi_py.services.log_compaction.descriptor import LOG_COMPACTION
from hudi_py.services.planned.unschedule import unschedule
from hudi_py.services.recovery.restore import restore
from hudi_py.services.recovery.rollback import rollback
from hudi_py.services.recovery.savepoint import create_savepoint, delete_savepoint

SERVICES: Final[Mapping[str, Service]] = {
    service.name: service
    for service in (
        COMPACTION,
        LOG_COMPACTION,
        CLEAN,
        ARCHIVE,
        Service(name="savepoint", run=create_savepoint, arguments=("user", "comment")),
        Service(name="delete_savepoint", run=delete_savepoint, instant=InstantArgument.REQUIRED),
        Service(name="rollback", run=rollback, instant=InstantArgument.REQUIRED, arguments=("with_newer",)),
        Service(name="restore", run=restore, instant=InstantArgument.REQUIRED),
        Service(name="unschedule", run=unschedule, instant=InstantArgument.REQUIRED),
        Service(
            name="rescale_buckets",
            run=rescale_buckets,
            instant=InstantArgument.REFUSED,
            arguments=("expressions", "buckets", "add", "dry_run"),
        ),
        Service(name="resize_buckets", plans=BucketResizing(local=False), command="resize-buckets"),
    )
}
AFTER_COMMIT: Final = (CLEAN, ARCHIVE, COMPACTION, LOG_COMPACTION)
"""Services that follow commits, in Apache Hudi's order (`BaseHoodieWriteClient.mayBeCleanAndArchive`,
`BaseHoodieTableServiceClient.runTableServicesInline`, 1.2.0)."""


def due_services(context: ServiceContext) -> list[Due]:
    """What compaction, cleaning and archiving would do now, according to their options. Changes nothing, and does not
    take the lock. Reads the timeline and lists files, but reads no rows."""
    return list(_each_due(context))


def _each_due(context: ServiceContext) -> Iterator[Due]:
    state = context.state()
    for service in SERVICES.values():
        found = service.due(context, state) if service.due is not None else None
        if found is not None:
            yield found


def check_call(name: str, phase: str | None, instant: str | None, arguments: Collection[str] = ()) -> Service:
    """Return the service of a call. Raises ConfigError if there is no such service, or an argument is missing or
    unknown."""
    service = SERVICES.get(name)
    if service is None:
        raise ConfigError(f"Cannot run the service {name!r}; services are {', '.join(SERVICES)}")
    if instant is None and service.instant is InstantArgument.REQUIRED:
        raise ConfigError(f"Cannot run the service {name} without an instant; give instant='...'")
    if instant is not None and (phase == "schedule" or service.instant is InstantArgument.REFUSED):
        raise ConfigError(
            f"Cannot run the service {name} with the instant {instant!r}: "
            + ("a new plan gets a new instant" if service.plans is not None else "it takes none")
            + "; leave it out"
        )
    for argument in arguments:
        if argument not in service.arguments:
            takers = [each.name for each in SERVICES.values() if argument in each.arguments]
            raise ConfigError(
                f"Cannot run the service {name} with {argument}: "
                + (f"only {', '.join(takers)} takes this argument; " if takers else "")
                + f"it takes {', '.join(service.arguments) or 'only options'}"
            )
    return service
