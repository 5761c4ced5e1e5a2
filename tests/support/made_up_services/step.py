"""A made-up service of a single step: it counts files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hudi_py.config import Options
from hudi_py.model.properties import TableConfig
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, InstantArgument, Service, Step
from hudi_py.services.planned.service import ServiceReport
from hudi_py.timeline.state import TableState


@dataclass(frozen=True, slots=True, repr=False)
class TallyReport(ServiceReport):
    """What it counted."""

    num_files: int = 0


def tally(
    context: ServiceContext,
    instant: str | None = None,
    *,
    partition: str = "",
    least: int = 0,
    double: bool = False,
) -> TallyReport:
    """Counts the base files of a partition, or of all, that have so many bytes."""
    view = context.view(context.state())
    files = [
        slice_.base_file
        for path in view.partitions()
        if partition in ("", path)
        for slice_ in view.latest_slices(path)
        if slice_.base_file is not None and slice_.base_file.size >= least
    ]
    return TallyReport("tally", None, num_files=len(files) * (2 if double else 1))


def _steps(options: Options, config: TableConfig) -> Iterator[Step]:
    yield Step("tally", lambda context, _: found if (found := tally(context)).num_files else None)


def _due(context: ServiceContext, state: TableState) -> Due:
    return Due("tally", True, "files can always be counted")


TALLY: Final = Service(
    name="tally",
    help="Counts files",
    run=tally,
    instant=InstantArgument.REFUSED,
    arguments=(
        Argument("partition", str, "where to count"),
        Argument("least", int, "the least size to count"),
        Argument("double", bool, "whether to count each twice"),
    ),
    asks="count files",
    after_commit=AfterCommitRule(_steps),
    due=_due,
)
