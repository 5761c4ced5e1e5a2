"""The procedures that run table services, and those that show the services' settings (`RunCompactionProcedure`,
`RunCleanProcedure`, `CreateSavepointProcedure`, `ArchiveCommitsProcedure` and others, Apache Hudi 1.2.0)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from hudi_py.config import clustering as clustering_config
from hudi_py.config import services as services_config
from hudi_py.errors import ConfigError
from hudi_py.services.distributed import check_call
from pyspark_hudi.dialect.descriptors import Given, Procedure, Rows, needed, rows_of
from pyspark_hudi.dialect.insert import delete_partition_at
from pyspark_hudi.dialect.tables import StatementTarget
from pyspark_hudi.services import run_service

_BUCKET_RULE: Final = "regex"
_REWRITING: Final = ("compaction", "log_compaction", "clustering")
"""Services whose unfinished attempts can be undone."""
_ALL: Final = 1 << 31
_OF_CALL: Final = ("table", "path", "service", "phase", "instant", "options")
"""Parameters of `run_service` that the call itself handles. All others are those of the service."""


def _service(
    target: StatementTarget, name: str, options: Mapping[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    given = {**target.options, **(options or {})}
    return run_service(target.spark, target.path, name, options=given, **arguments)


def options_of(given: Given) -> dict[str, str]:
    """Parses the parameter `options`: key=value, separated by commas."""
    options = {}
    for part in str(given.get("options") or "").split(","):
        key, separator, value = part.partition("=")
        if separator:
            options[key.strip()] = value.strip()
    return options


def _run_service(target: StatementTarget, given: Given) -> Rows:
    """Runs any service; not one of Apache Hudi's procedures."""
    service, chosen = needed(given, "service"), {"phase": given["phase"], "instant": given["instant"]}
    arguments = {name: value for name, value in given.items() if name not in _OF_CALL}
    # names such as `options` could otherwise be taken for parameters of the function
    call = check_call(service, chosen["phase"], chosen["instant"], arguments)
    report = _service(target, service, options_of(given), **chosen, **call.arguments)
    known = [report.pop(name) for name in ("service", "instant", "completion_time", "reason")]
    yield (*known, json.dumps(report))


def _pending(target: StatementTarget, service: str) -> dict[str, tuple[int, str]]:
    """Returns the number of operations and the state of each pending plan, by instant, oldest first."""
    plans: dict[str, tuple[int, str]] = {}
    for row in target.view("plans"):
        if row["service"] == service:
            plans[row["instant"]] = (plans.get(row["instant"], (0, ""))[0] + 1, row["state"])
    return dict(sorted(plans.items()))


def _instants(given: object) -> list[str]:
    return [part.strip() for part in str(given or "").split(",") if part.strip()]


def _check_pending(target: StatementTarget, service: str, wanted: Iterable[str], pending: Collection[str]) -> None:
    missing = [instant for instant in wanted if instant not in pending]
    if missing:
        raise ConfigError(
            f"Cannot run the {service} {missing[0]} of {target.shown}: no such plan is pending; pending are "
            f"{', '.join(sorted(pending)) or 'none'}"
        )


def _run_clustering(target: StatementTarget, given: Given) -> Rows:
    """Makes a plan and runs it; if there is nothing to plan, runs pending plans (`RunClusteringProcedure`, 1.2.0)."""
    operation = str(given["op"] or "scheduleAndExecute").lower()
    if operation not in ("schedule", "execute", "scheduleandexecute"):
        raise ConfigError(
            f"Cannot call run_clustering with op => {given['op']!r}; supported: schedule, execute and "
            "scheduleAndExecute"
        )
    wanted = _instants(given["instants"])
    if wanted and operation == "schedule":
        raise ConfigError(
            f"Cannot call run_clustering with op => 'schedule' and the instant {wanted[0]!r}: a new plan gets a new "
            "instant; leave instants out"
        )
    if given["predicate"]:
        raise ConfigError(
            f"Cannot call run_clustering with predicate => {given['predicate']!r}: conditions are not supported; "
            "name partitions by selected_partitions"
        )
    chosen = {
        clustering_config.SORT_COLUMNS: given["order"],
        clustering_config.LAYOUT: given["order_strategy"],
        clustering_config.PARTITIONS: given["selected_partitions"],
        clustering_config.PARTITION_REGEX: given["partition_regex_pattern"],
    }
    options = options_of(given) | {option.key: str(value) for option, value in chosen.items() if value}
    if operation != "execute" and not wanted:
        report = _service(target, "clustering", options, phase="schedule")
        wanted = [report["instant"]] if report["instant"] is not None else []
    pending = list(_pending(target, "clustering"))
    if operation != "schedule" and not wanted:
        wanted = pending[: given["limit"]]
    _check_pending(target, "clustering", wanted, pending)
    for instant in wanted if operation != "schedule" else ():
        _service(target, "clustering", options, phase="execute", instant=instant)
    shown = {"path": None, "limit": _ALL, "show_involved_partition": given["show_involved_partition"]}
    yield from (row for row in rows_of(target, "show_clustering", shown) if row[0] in wanted)


def _run_compaction(target: StatementTarget, given: Given) -> Rows:
    """Runs pending plans; if there are none, `scheduleAndExecute` makes and runs one, and so does `run` if one is due
    (`RunCompactionProcedure`, 1.2.0)."""
    operation = str(given["op"] or "").lower()
    if operation not in ("run", "schedule", "execute", "scheduleandexecute"):
        raise ConfigError(
            f"Cannot call run_compaction with op => {given['op']!r}; supported: schedule, execute and "
            "scheduleAndExecute (run)"
        )
    _check_merges(target, f"compact the table {target.shown}", executes=operation == "execute")
    options = options_of(given)
    wanted = _instants(given["instants"] or given["timestamp"])
    pending = _pending(target, "compaction") if wanted or operation != "schedule" else {}
    if wanted or pending:
        operation = "execute"
    if operation in ("schedule", "run", "scheduleandexecute"):
        report = _service(target, "compaction", options, phase="schedule", when_due=operation == "run")
        if report["instant"] is None:
            return
        wanted = [report["instant"]]
        pending = _pending(target, "compaction")
    if operation == "execute" and not wanted:
        wanted = list(pending)[: given["limit"]]
    _check_pending(target, "compaction", wanted, pending)
    for instant in wanted if operation != "schedule" else ():
        _service(target, "compaction", options, phase="execute", instant=instant)
    for instant in reversed(wanted):
        size, state = pending[instant]
        yield instant, size, state if operation == "schedule" else "COMPLETED"


def _check_merges(target: StatementTarget, what: str, *, executes: bool = False) -> None:
    """Checks that the table is merge-on-read: others have no compactions, so executing pending ones finds none
    (`HoodieTable`, 1.2.0)."""
    if not executes and not target.config.is_mor:
        raise ConfigError(f"Cannot {what}: it is copy-on-write, without logs to compact; CALL run_clean frees space")


def _run_clean(target: StatementTarget, given: Given) -> Rows:
    keys = {
        "clean_policy": services_config.CLEAN_POLICY.key,
        "retain_commits": services_config.CLEAN_COMMITS_RETAINED.key,
        "hours_retained": services_config.CLEAN_HOURS_RETAINED.key,
        "file_versions_retained": services_config.CLEAN_FILE_VERSIONS_RETAINED.key,
        "trigger_strategy": services_config.CLEAN_TRIGGER_STRATEGY.key,
        "trigger_max_commits": services_config.CLEAN_TRIGGER_MAX_COMMITS.key,
    }
    options = {key: str(given[name]) for name, key in keys.items() if given[name] is not None}
    begun = time.monotonic()
    report = _service(target, "clean", {**options, **options_of(given)})
    taken = round((time.monotonic() - begun) * 1000)
    if report["instant"] is not None:
        yield report["instant"], taken, report["num_files"], report["earliest_retained"], "{}", 2


def _run_ttl(target: StatementTarget, given: Given) -> Rows:
    """Returns one row for each dropped partition (`RunTTLProcedure`, 1.2.0)."""
    chosen = {"strategy": given["ttl_policy"] or None, "retain_days": given["retain_days"]}
    report = _service(target, "ttl", options_of(given), **chosen)
    yield from ((path,) for path in report["partitions"])


def _change_version(service: str) -> Callable[[StatementTarget, Given], Rows]:
    """Builds a procedure that upgrades or downgrades (`UpgradeOrDowngradeProcedure`, 1.2.0, which answers false to any
    failure)."""

    def run(target: StatementTarget, given: Given) -> Rows:
        asked = str(needed(given, "to_version")).strip()
        _service(target, service, to=_VERSIONS.get(asked.upper(), asked))
        yield (True,)

    return run


def _rollback(target: StatementTarget, given: Given) -> Rows:
    _service(target, "rollback", instant=needed(given, "instant_time"))
    yield (True,)


def _rollback_inflight(target: StatementTarget, given: Given) -> Rows:
    """Undoes an unfinished attempt at a compaction or clustering; its plan stays unless the call asks to drop it
    (`RunRollbackInflightTableServiceProcedure`, 1.2.0)."""
    instant = needed(given, "pending_instant")
    begun = [
        pending
        for service in _REWRITING
        for pending, (_, state) in _pending(target, service).items()
        if state == "INFLIGHT"
    ]
    if instant not in begun:
        raise ConfigError(
            f"Cannot roll back the table service {instant} of {target.shown}: no compaction or clustering of this time "
            f"has begun; begun are {', '.join(sorted(begun)) or 'none'}"
        )
    started = time.monotonic()
    _service(target, "unschedule" if given["delete_request_instant_file"] else "rollback", instant=instant)
    yield instant, str(round((time.monotonic() - started) * 1000))


def _create_savepoint(target: StatementTarget, given: Given) -> Rows:
    user, comment = str(given["user"] or ""), str(given["comments"] or "")
    _service(target, "savepoint", instant=given["commit_time"] or None, user=user, comment=comment)
    yield (True,)


def _delete_savepoint(target: StatementTarget, given: Given) -> Rows:
    report = _service(target, "delete_savepoint", instant=given["instant_time"] or _newest_savepoint(target))
    if report["instant"] is None:
        raise ConfigError(f"Cannot delete a savepoint of {target.shown}: {report['reason']}")
    yield (True,)


def _restore(target: StatementTarget, given: Given) -> Rows:
    _service(target, "restore", instant=given["instant_time"] or _newest_savepoint(target))
    yield (True,)


def _savepoints(target: StatementTarget) -> list[str]:
    """Lists savepoints, newest first."""
    rows = target.view("timeline")
    savepoints = [row["instant"] for row in rows if (row["action"], row["state"]) == ("savepoint", "COMPLETED")]
    return sorted(savepoints, reverse=True)


def _newest_savepoint(target: StatementTarget) -> str:
    savepoints = _savepoints(target)
    if not savepoints:
        raise ConfigError(
            f"Cannot choose the newest savepoint of {target.shown}: it has none; create one with CALL create_savepoint"
        )
    return savepoints[0]


def _show_savepoints(target: StatementTarget, given: Given) -> Rows:
    for savepoint in _savepoints(target):
        yield (savepoint,)


def _show_commits(target: StatementTarget, given: Given) -> Rows:
    yield from (tuple(row.values()) for row in target.view("commits")[: given["limit"]])


def _archive(target: StatementTarget, given: Given) -> Rows:
    options = {
        services_config.ARCHIVE_MIN_COMMITS.key: str(given["min_commits"]),
        services_config.ARCHIVE_MAX_COMMITS.key: str(given["max_commits"]),
        services_config.CLEAN_COMMITS_RETAINED.key: str(given["retain_commits"]),
    }
    _service(target, "archive", options)
    yield (0,)


def _show_properties(target: StatementTarget, given: Given) -> Rows:
    yield from (tuple(row.values()) for row in target.view("properties")[: given["limit"]])


def _metadata_partitions(target: StatementTarget, given: Given) -> Rows:
    yield from ((row["partition"],) for row in target.view("partitions"))


def _drop_partition(target: StatementTarget, given: Given) -> Rows:
    delete_partition_at(target, needed(given, "partition"))
    yield ("Success",)


def _bucket_rules(target: StatementTarget, given: Given) -> Rows:
    """Shows or changes bucket rules (`PartitionBucketIndexManager`, 1.2.0)."""
    options = options_of(given)
    if str(given["rule"]).lower() != _BUCKET_RULE:
        raise ConfigError(f"Cannot use bucket rules of the kind {given['rule']!r}; supported: {_BUCKET_RULE}")
    report = _service(target, "rescale_buckets", options)
    if given["show_config"]:
        shown = (
            f"PartitionBucketIndexHashingConfig(expressions={expressions}, defaultBucketNumber={default}, "
            f"rule={_BUCKET_RULE}, version=1, instant={instant})"
            for instant, expressions, default in report["rules"]
        )
        yield "SUCCESS", "SHOW_CONFIG", ";".join(shown)
    elif given["rollback"] is not None:
        instant = str(given["rollback"])
        if instant not in [rule[0] for rule in report["rules"]]:
            yield "FAILED", "ROLLBACK", None
            return
        _service(target, "rollback", options, instant=instant)
        yield "SUCCESS", "ROLLBACK", f"true to rollback {instant}"
    elif given["overwrite"] is None and given["add"] is None:
        yield "ERROR", "INVALID_OPERATION", "No valid operation specified"
    else:
        adds, dry_run = given["overwrite"] is None, bool(given["dry_run"])
        # -1 stands for none, and one that is added keeps the number of buckets
        buckets = None if adds or given["bucket_number"] == -1 else given["bucket_number"]
        rules = {"expressions": given["add"] if adds else given["overwrite"], "buckets": buckets, "add": adds}
        report = _service(target, "rescale_buckets", options, **rules, dry_run=dry_run)
        if dry_run:
            details = ";".join(f"\n{path} => {count}\n" for path, count in report["partitions"])
            yield "SUCCESS", "DRY_RUN_OVERWRITE", details
            return
        _, expressions, default = _service(target, "rescale_buckets", options)["rules"][-1]
        details = f"Expression: {expressions}, Bucket Number: {default}, Dry Run: false"
        yield "SUCCESS", "OVERWRITE", details


_VERSIONS: Final[Mapping[str, str]] = {"SIX": "6", "EIGHT": "8", "NINE": "9"}
"""Apache Hudi's names of table versions."""
_TO_VERSION: Final[Mapping[str, Any]] = {"table": None, "to_version": None}
_COMPACTION = "timestamp STRING, operation_size INT, state STRING"
_SAVEPOINT: Final[Mapping[str, Any]] = {"table": None, "instant_time": "", "path": None}
SERVICE_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "run_service": Procedure(
        dict.fromkeys(("table", "service", "phase", "instant", "options")),
        "service STRING, instant STRING, completion_time STRING, reason STRING, details STRING",
        _run_service,
        takes_more=True,
    ),
    "run_compaction": Procedure(
        dict.fromkeys(("op", "table", "path", "timestamp", "options", "instants", "limit")),
        _COMPACTION,
        _run_compaction,
    ),
    "run_clustering": Procedure(
        {
            **dict.fromkeys(("table", "path", "predicate", "order")),
            "show_involved_partition": False,
            **dict.fromkeys(("op", "order_strategy", "options", "instants", "selected_partitions")),
            **dict.fromkeys(("partition_regex_pattern", "limit")),
        },
        "timestamp STRING, input_group_size INT, state STRING, involved_partitions STRING",
        _run_clustering,
    ),
    "run_clean": Procedure(
        {
            "table": None,
            "schedule_in_line": True,
            **dict.fromkeys(("clean_policy", "retain_commits", "hours_retained", "file_versions_retained")),
            **dict.fromkeys(("trigger_strategy", "trigger_max_commits", "options")),
        },
        "start_clean_time STRING, time_taken_in_millis BIGINT, total_files_deleted INT, "
        "earliest_commit_to_retain STRING, bootstrap_part_metadata STRING, version INT",
        _run_clean,
    ),
    "run_ttl": Procedure(
        dict.fromkeys(("table", "ttl_policy", "retain_days", "options")),
        "deleted_partitions STRING",
        _run_ttl,
    ),
    "upgrade_table": Procedure(_TO_VERSION, "result BOOLEAN", _change_version("upgrade")),
    "downgrade_table": Procedure(_TO_VERSION, "result BOOLEAN", _change_version("downgrade")),
    "run_rollback_inflight_tableservice": Procedure(
        {**dict.fromkeys(("table", "path", "pending_instant")), "delete_request_instant_file": False},
        "instant STRING, time_cost STRING",
        _rollback_inflight,
    ),
    "rollback_to_instant": Procedure({"table": None, "instant_time": None}, "rollback_result BOOLEAN", _rollback),
    "create_savepoint": Procedure(
        {"table": None, "commit_time": "", "user": "", "comments": "", "path": None},
        "create_savepoint_result BOOLEAN",
        _create_savepoint,
    ),
    "delete_savepoint": Procedure(_SAVEPOINT, "delete_savepoint_result BOOLEAN", _delete_savepoint),
    "rollback_to_savepoint": Procedure(_SAVEPOINT, "rollback_savepoint_result BOOLEAN", _restore),
    "show_savepoints": Procedure({"table": None, "path": None}, "savepoint_time STRING", _show_savepoints),
    "show_commits": Procedure(
        {"table": None, "limit": 10},
        "commit_time STRING, state_transition_time STRING, action STRING, total_bytes_written BIGINT, "
        "total_files_added BIGINT, total_files_updated BIGINT, total_partitions_written BIGINT, "
        "total_records_written BIGINT, total_update_records_written BIGINT, total_errors BIGINT",
        _show_commits,
    ),
    "archive_commits": Procedure(
        {
            "table": None,
            "path": None,
            "min_commits": 20,
            "max_commits": 30,
            "retain_commits": 10,
            "enable_metadata": True,
        },
        "result INT",
        _archive,
    ),
    "show_table_properties": Procedure(
        {"table": None, "path": None, "limit": 10, "filter": ""}, "key STRING, value STRING", _show_properties
    ),
    "partition_bucket_index_manager": Procedure(
        {
            "table": None,
            "overwrite": None,
            "bucket_number": -1,
            "add": None,
            "dry_run": True,
            "rollback": None,
            "show_config": False,
            "rule": _BUCKET_RULE,
            "options": None,
        },
        "result STRING, operation STRING, details STRING",
        _bucket_rules,
    ),
    "show_metadata_table_partitions": Procedure(
        {"table": None, "path": None, "filter": ""}, "partition STRING", _metadata_partitions
    ),
    "drop_partition": Procedure({"table": None, "partition": None}, "result STRING", _drop_partition),
}
