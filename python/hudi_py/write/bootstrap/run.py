"""Runs a bootstrap: creates a table from files (`SparkBootstrapCommitActionExecutor`, Apache Hudi 1.2.0).

The skeletons are a commit with the instant `00000000000001`, copies of rows one with `00000000000002`. The bootstrap
creates the table, and removes it if it fails. No other write touches what a killed bootstrap leaves; the next bootstrap
removes it. The source is never written to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hudi_py.config import Option, Options
from hudi_py.config import bootstrap as bootstrap_config
from hudi_py.config import read as read_config
from hudi_py.errors import ConfigError, TableExistsError
from hudi_py.model.instant import InstantTime
from hudi_py.model.operation import BOOTSTRAP, Operation
from hudi_py.model.properties import BOOTSTRAP_COPIES, TableConfig
from hudi_py.progress import Progress
from hudi_py.storage import Storage, open_beside, plain_uri
from hudi_py.storage.threads import in_threads, write_threads
from hudi_py.transaction.action import OperationResult
from hudi_py.transaction.owner.identity import process_identity
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession, WriteTarget
from hudi_py.transaction.transaction import WriteTransaction
from hudi_py.view.bootstrap import BASE_PATH, FULL_INSTANT, METADATA_INSTANT, check_source
from hudi_py.write.api import create_table, named_options, table_config_at
from hudi_py.write.bootstrap.plan import BootstrapPlan
from hudi_py.write.bootstrap.skeletons import SkeletonContext, write_bootstrap_index, write_skeleton
from hudi_py.write.bootstrap.source import Source
from hudi_py.write.context import WriteContext
from hudi_py.write.operations import run_operation
from hudi_py.write.result import WriteResult, result_of
from hudi_py.write.settings import write_settings
from hudi_py.write.table.first import FirstWrite
from hudi_py.write.table.properties import table_properties

_WRITES = Operation.BULK_INSERT


def bootstrap_options(
    options: Mapping[str, Any] | None, *, source: str | None = None, mode: str | None = None, regex: str | None = None
) -> dict[str, Any]:
    """Returns the options of a bootstrap with its arguments among them; see `hudi_py.bootstrap`.

    Raises:
        ConfigError: the mode is unknown, or an argument contradicts an option.
    """
    given = dict(options or {})
    modes = {
        bootstrap_config.METADATA_ONLY: bootstrap_config.METADATA_SELECTOR,
        bootstrap_config.FULL_RECORD: bootstrap_config.FULL_SELECTOR,
    }
    chosen = (mode or bootstrap_config.METADATA_ONLY).upper()
    if chosen not in modes:
        raise ConfigError(f"Argument mode={mode!r} is not valid: expected one of {', '.join(modes).lower()}")
    wanted: dict[Option[Any], str | None] = {bootstrap_config.BASE_PATH: source}
    if regex is not None:
        wanted |= {
            bootstrap_config.SELECTOR: bootstrap_config.REGEX_SELECTOR,
            bootstrap_config.REGEX: regex,
            bootstrap_config.REGEX_MODE: chosen,
        }
    elif mode is not None:
        wanted[bootstrap_config.SELECTOR] = modes[chosen]
    for option, value in wanted.items():
        if value is not None and str(given.setdefault(option.key, value)) != value:
            raise ConfigError(
                f"The arguments of a bootstrap contradict the option {option.key}={given[option.key]!r}, which would "
                f"be {value!r}; give one of them"
            )
    return given


def bootstrap_table(target: WriteTarget) -> WriteResult:
    """Creates a table from the files below `hoodie.bootstrap.base.path`.

    Raises:
        TableExistsError: there is a table at the path.
        ConfigError: there are no such files, or options contradict each other or the files.
        SchemaMismatchError, UnsupportedTableError: the files cannot be a table.
        ConflictError: another bootstrap of the table is under way.
    """
    storage = target.durable
    options = named_options(storage, target.options)
    source = _open_source(storage, options)
    first = FirstWrite.of(process_identity(), options)
    existing = table_config_at(storage)
    if existing is not None and not first.remove_bootstrap(storage, existing):
        raise _exists_error(storage)
    plan = BootstrapPlan.of(source, options)
    added = dict(plan.properties)
    if plan.skeletons and plan.copied:
        added[BOOTSTRAP_COPIES] = "pending"
    target.check(TableConfig({**table_properties(plan.options), **added}))
    try:
        config, created = create_table(storage, plan.options, lambda properties: first.mark({**properties, **added}))
    except BaseException:  # also after an interrupt
        first.end()
        raise
    if not created:
        first.end()
        raise _exists_error(storage)
    with first.taken_back(storage, config):
        session = replace(target, options=plan.options).session(config)
        done = [
            written for written in (_write_skeletons(session, plan), _copy_rows(session, plan)) if written is not None
        ]
    services = session.run_after(done[-1][1])
    return replace(_combine_results([result for result, _ in done]), services=services)


def _write_skeletons(session: TableSession, plan: BootstrapPlan) -> tuple[WriteResult, Committed] | None:
    """Commits skeletons of the files whose rows stay where they are."""
    if not plan.skeletons:
        return None
    with (
        Progress.on_terminal(f"bootstrap {session.config.name}") as progress,
        WriteTransaction.begin(
            session,
            action=_WRITES.action(session.config),
            operation="BOOTSTRAP",
            instant=InstantTime(METADATA_INSTANT),
        ) as transaction,
    ):
        settings = write_settings(transaction.view, plan.schema.arrow, _WRITES, plan.options)
        settings = replace(settings, schema=plan.schema)
        progress.phase("writing keys", len(plan.skeletons))
        written = in_threads(
            lambda numbered: write_skeleton(
                SkeletonContext(transaction, settings, numbered[0], progress), settings, numbered[1]
            ),
            enumerate(plan.skeletons),
            write_threads(plan.options),
        )
        stats = [stat for stat, _ in written]
        mappings = [mapping for _, mapping in written]
        infos = [planned.file.info for planned in plan.skeletons]
        write_bootstrap_index(session.storage, plan.source.base, list(zip(mappings, infos, strict=True)))
        progress.phase("committing")
        done = transaction.commit(
            OperationResult(stats), schema_json=settings.stored_avro_json, extra=plan.options.commit_metadata
        )
    committed = Committed(
        *(done.instant, done.completion_time, "BOOTSTRAP", tuple(sorted({stat.partition_path for stat in stats}))),
        *(tuple(stat.path for stat in stats), done.timeline),
    )
    return result_of(BOOTSTRAP, done.instant, done.completion_time, stats), committed


def _copy_rows(session: TableSession, plan: BootstrapPlan) -> tuple[WriteResult, Committed] | None:
    """Commits the rows that are copied, as a bulk insert."""
    if not plan.copied:
        return None
    with (
        Progress.on_terminal(f"bootstrap {session.config.name}") as progress,
        WriteTransaction.begin(
            session,
            action=_WRITES.action(session.config),
            operation=_WRITES.java_name,
            instant=InstantTime(FULL_INSTANT),
        ) as transaction,
    ):
        settings = write_settings(transaction.view, plan.schema.arrow, _WRITES, plan.options)
        context = WriteContext(transaction, settings, progress=progress)
        written = run_operation(context, plan.copied_rows(), _WRITES)
        done, committed = context.commit_rows(_WRITES, written, plan.options.commit_metadata)
    return replace(done, operation=BOOTSTRAP), committed


def _combine_results(results: Sequence[WriteResult]) -> WriteResult:
    """Returns the result of both commits, with the times of the last one."""
    return replace(
        results[-1],
        num_inserted=sum(result.num_inserted or 0 for result in results),
        num_files=sum(result.num_files for result in results),
        num_bytes=sum(result.num_bytes for result in results),
    )


def _open_source(storage: Storage, options: Options) -> Source:
    base = options.get(bootstrap_config.BASE_PATH)
    if base is None:
        raise ConfigError(
            f"Cannot bootstrap a table at {storage.uri}: the source is missing; set {BASE_PATH} to the folder of its "
            "files"
        )
    beside = open_beside(storage, base)
    ours, theirs = f"{storage.uri.rstrip('/')}/", f"{beside.uri.rstrip('/')}/"
    if ours.startswith(theirs) or theirs.startswith(ours):
        raise ConfigError(
            f"Cannot bootstrap a table at {storage.uri} from {base}: one lies in the other; choose a path beside the "
            "source"
        )
    source = Source.of(beside, base if ":" in base.partition("/")[0] else plain_uri(beside.uri))
    allowed = read_config.bootstrap_folders(options.get(read_config.BOOTSTRAP_SOURCES))
    check_source(storage.uri, TableConfig({BASE_PATH: source.base}), source.files[0].uri, allowed)
    return source


def _exists_error(storage: Storage) -> TableExistsError:
    return TableExistsError(
        f"Cannot bootstrap a table at {storage.uri}: there is one already; choose another path, or remove the table "
        "first"
    )
