"""Archiving as a table service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudi_py.config import Options
from hudi_py.config import services as services_config
from hudi_py.config.services import check_archive
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.archive.service import ArchiveReport, archive, may_be_due, preview_archive
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Due, InstantArgument, Service, Step
from hudi_py.timeline.state import TableState


def _archive(context: ServiceContext, state: TableState) -> bool:
    # after most commits none is due, which the timeline shows without the lock
    return may_be_due(context, state) and archive(context).instant is not None


def _steps(options: Options, config: TableConfig) -> Iterator[Step]:
    if options.get(services_config.ARCHIVE_AUTOMATIC):
        yield Step("archive", _archive)


def _check_options(options: Options) -> None:
    # Even if archiving is off, as in `HoodieWriteConfig.validate`: the metadata table uses the same numbers
    check_archive(options)


def _due(context: ServiceContext, state: TableState) -> Due:
    selection = preview_archive(context)
    more = f"{counted(len(selection.instants), 'instant')} can be archived"
    return Due("archive", bool(selection.instants), more if selection.instants else selection.reason)


def _run(context: ServiceContext, instant: str | None) -> ArchiveReport:
    return archive(context)


ARCHIVE: Final = Service(
    name="archive",
    help="Moves old instants from the active timeline to the archived one",
    run=_run,
    instant=InstantArgument.REFUSED,
    command="archive",
    after_commit=AfterCommitRule(_steps, check_options=_check_options),
    due=_due,
)
