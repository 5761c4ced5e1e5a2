"""Log compaction as a table service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from hudi_py.config import Options
from hudi_py.config import compaction as compaction_config
from hudi_py.model.properties import TableConfig
from hudi_py.services.descriptor import AfterCommitRule, Service, Step, run_step
from hudi_py.services.log_compaction.service import LogCompaction, check_logs_compactable


def _steps(options: Options, config: TableConfig) -> Iterator[Step]:
    if config.is_mor and options.get(compaction_config.LOG_INLINE):
        yield run_step(LogCompaction())


def _check_table(options: Options, config: TableConfig) -> None:
    if config.is_mor and options.get(compaction_config.LOG_INLINE):
        check_logs_compactable(config, options)


LOG_COMPACTION: Final = Service(
    name="log_compaction",
    help="Merges the logs of file groups that have enough of them into one each",
    plans=partial(LogCompaction, always=True),
    command="log-compact",
    after_commit=AfterCommitRule(_steps, check_table=_check_table),
)
