"""Clustering as a table service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudi_py.config import Options
from hudi_py.config import clustering as config
from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.services.clustering.service import Clustering
from hudi_py.services.compaction.rewrite import check_compactable
from hudi_py.services.descriptor import AfterCommitRule, Argument, Service, Step, run_step, schedule_step


def _steps(options: Options, _: TableConfig) -> Iterator[Step]:
    if options.get(config.INLINE):
        yield run_step(Clustering(min_commits=max(options.get(config.INLINE_MAX_COMMITS), 1)))
    elif options.get(config.SCHEDULE_INLINE):
        yield schedule_step(Clustering(min_commits=max(options.get(config.ASYNC_MAX_COMMITS), 1)))


def _check_options(options: Options) -> None:
    if options.get(config.INLINE) and options.get(config.SCHEDULE_INLINE):
        raise ConfigError(  # `HoodieWriteConfig.validate`, 1.2.0
            f"Cannot write with {config.INLINE.key} = true and {config.SCHEDULE_INLINE.key} = true: a commit is "
            "followed either by a clustering or by a plan to run later; set only one of them"
        )


def _check_table(options: Options, table: TableConfig) -> None:
    if options.get(config.INLINE) or options.get(config.SCHEDULE_INLINE):
        check_compactable(table, "cluster")


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
)
