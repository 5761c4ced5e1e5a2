"""Clustering as a table service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudi_py.config import Options
from hudi_py.config import clustering as config
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.model.words import counted
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.compaction.rewrite import check_compactable
from hudi_py.services.context import ServiceContext
from hudi_py.services.descriptor import AfterCommitRule, Argument, Due, Service, Step, run_step, schedule_step
from hudi_py.timeline.state import TableState


def _after_commits(options: Options) -> Clustering | None:
    """Plans what is due after a commit; None if the options ask for nothing."""
    if options.get(config.INLINE):
        return Clustering(min_commits=max(options.get(config.INLINE_MAX_COMMITS), 1))
    if options.get(config.SCHEDULE_INLINE):
        return Clustering(min_commits=max(options.get(config.ASYNC_MAX_COMMITS), 1))
    return None


def _steps(options: Options, _: TableConfig) -> Iterator[Step]:
    service = _after_commits(options)
    if service is not None:
        yield run_step(service) if options.get(config.INLINE) else schedule_step(service)


def _check_options(options: Options) -> None:
    if options.get(config.INLINE) and options.get(config.SCHEDULE_INLINE):
        raise ConfigError(  # `HoodieWriteConfig.validate`, 1.2.0
            f"Cannot write with {config.INLINE.key} = true and {config.SCHEDULE_INLINE.key} = true: a commit is "
            "followed either by a clustering or by a plan to run later; set only one of them"
        )


def _check_table(options: Options, table: TableConfig) -> None:
    if _after_commits(options) is not None:
        check_compactable(table, "cluster")


def _due(context: ServiceContext, _: TableState) -> Due | None:
    service = _after_commits(context.options)
    if service is None:
        return None
    found = service.preview(context)
    groups = f"{counted(len(found.rows), 'file group')} to join or sort"
    return Due("clustering", bool(found.rows), groups if found.rows else found.reason)


CLUSTERING: Final = Service(
    name="clustering",
    help="Moves rows to fewer, larger or sorted files",
    plans=Clustering,
    arguments=(
        Argument("sort_by", str, "columns to sort the rows of a new plan by, separated by commas"),
        Argument("layout", str, "how they are sorted by several columns: linear, zorder or hilbert"),
        Argument("partitions", str, "paths of the partitions that a new plan has, separated by commas"),
    ),
    command="cluster",
    after_commit=AfterCommitRule(_steps, check_options=_check_options, check_table=_check_table),
    due=_due,
)
