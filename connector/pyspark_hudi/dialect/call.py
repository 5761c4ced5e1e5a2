"""CALL: the procedures of Apache Hudi that hudi-py supports, with the names, parameters and columns of 1.2.0, and
hudi-py's own `run_service`."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hudi_py.errors import ConfigError
from pyspark_hudi.dialect.bootstraps import BOOTSTRAP_PROCEDURES
from pyspark_hudi.dialect.commits import COMMIT_PROCEDURES
from pyspark_hudi.dialect.copies import COPY_PROCEDURES, SYNC_PROCEDURES
from pyspark_hudi.dialect.descriptors import (
    MENDING_PROCEDURES,
    SHOW_PROCEDURES,
    Given,
    Procedure,
    SqlStatement,
    named_target,
    needed,
)
from pyspark_hudi.dialect.maintenance import SERVICE_PROCEDURES
from pyspark_hudi.dialect.repairs import AUDIT_PROCEDURES, REPAIR_PROCEDURES
from pyspark_hudi.dialect.tables import StatementTarget, Tables
from pyspark_hudi.dialect.text import Cursor
from pyspark_hudi.paths import checked_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def call(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs CALL procedure(name => value, ...). Returns None for a procedure of another catalog.

    Raises:
        ConfigError: hudi-py does not have the procedure, or an argument is wrong.
        HudiError: as `run_service`.
    """
    cursor.need("CALL")
    *catalog, name = (part.lower() for part in cursor.names())
    if catalog:
        return None
    procedure = PROCEDURES.get(name)
    if procedure is None and tables.spark.catalog.currentCatalog() != "spark_catalog":
        return None
    if procedure is None:
        raise _no_procedure("call", name)
    given = _arguments(name, procedure, cursor.group())
    cursor.finish()
    if procedure is _HELP:
        return tables.spark.createDataFrame([(_help(given["cmd"]),)], procedure.columns)
    target = _target(tables, name, procedure, given)
    rows = list(procedure.run(target, given))
    result = tables.spark.createDataFrame(rows, procedure.columns)
    return result.where(str(given["filter"])) if given.get("filter") else result


def compaction(tables: Tables, cursor: Cursor) -> DataFrame | None:
    """Runs SCHEDULE COMPACTION, RUN COMPACTION and SHOW COMPACTION, Apache Hudi's statements for what CALL also does
    (`HoodieSqlCommon.g4`, 1.2.0). Returns None for another statement or table."""
    operation = next((word for word in ("SCHEDULE", "RUN", "SHOW") if cursor.take(word, "COMPACTION", "ON")), None)
    if operation is None:
        return None
    token = cursor.token
    if token is not None and token.kind == "text":
        path = checked_path(cursor.constant(), "read")
        target: StatementTarget | None = StatementTarget(tables, ("hudi", path), path)
    else:
        target = tables.find(cursor.names())
    if target is None:
        return None
    name = "show_compaction" if operation == "SHOW" else "run_compaction"
    procedure = PROCEDURES[name]
    given = {**procedure.parameters, **({} if operation == "SHOW" else {"op": operation})}
    if operation == "SHOW" and cursor.take("LIMIT"):
        given["limit"] = int(cursor.constant())
    elif operation != "SHOW" and cursor.take("AT"):
        given["timestamp"] = cursor.constant()
    cursor.finish()
    return tables.spark.createDataFrame(list(procedure.run(target, given)), procedure.columns)


def _help(command: str | None) -> str:
    if command is None:
        return "\n\t".join(["call [command]([key1]=>[value1],[key2]=>[value2]); commands:", *sorted(PROCEDURES)])
    procedure = PROCEDURES.get(str(command).lower())
    if procedure is None:
        raise _no_procedure("describe", str(command).lower())
    given = (f"{name} (default: {value!r})" for name, value in procedure.accepted.items())
    return "\n\t".join(["parameters:", *given]) + "\n" + "\n\t".join(["outputType:", *procedure.columns.split(", ")])


def _no_procedure(what: str, name: str) -> ConfigError:
    """Returns the error for an unknown procedure, which suggests the most similar name."""
    near = difflib.get_close_matches(name, PROCEDURES, 1)
    why = f"there is none of this name{f', the nearest is {near[0]}' if near else ''}"
    return ConfigError(f"Cannot {what} the procedure '{name}': {why}; CALL help() lists those that there are")


def _arguments(name: str, procedure: Procedure, cursor: Cursor) -> dict[str, Any]:
    given = procedure.accepted
    named = {parameter.lower(): parameter for parameter in given}
    for number, part in enumerate(cursor.parts()):
        following = Cursor(part.text, part.tokens, part.at + 1, part.end)
        if following.sees("=>") or following.sees("=", ">"):
            key = part.name()
            key = named.get(key.lower(), key)
            if not part.take("=>"):
                part.need("=", ">")
        elif number < len(procedure.parameters):
            key = list(procedure.parameters)[number]
        else:
            raise ConfigError(
                f"Cannot call {name} with the argument number {number + 1}: it takes {len(procedure.parameters)} by "
                f"position; give others by name, {_listing(name)}"
            )
        value = _value(part)
        if key in given:
            given[key] = value
        elif procedure.takes_more:
            given[key.lower()] = value
        else:  # Apache Hudi reports nothing
            near = difflib.get_close_matches(key.lower(), named, 1, 0.7)
            hint = f"did you mean {named[near[0]]}?" if near else _listing(name)
            warnings.warn(
                f"The argument '{key}' of {name} has no effect: there is none of this name; {hint}", stacklevel=2
            )
    return given


def _listing(name: str) -> str:
    return f"CALL help(cmd => '{name}') lists them"


def _value(cursor: Cursor) -> Any:
    if cursor.take("NULL"):
        value: Any = None
    elif cursor.take("TRUE"):
        value = True
    elif cursor.take("FALSE"):
        value = False
    else:
        token = cursor.token
        text = cursor.constant()
        is_text = token is not None and token.kind == "text"
        if not is_text and not text.isdigit():
            raise cursor.refused(f"the argument {text} is not a whole number")
        value = text if is_text else int(text)
    cursor.finish()
    return value


def _target(tables: Tables, name: str, procedure: Procedure, given: Given) -> StatementTarget:
    if procedure.creates:
        path = checked_path(needed(given, procedure.creates), "write")
        return StatementTarget(tables, ("hudi", path), path)
    if given.get("path") and not procedure.compares:
        path = checked_path(given["path"], "read")
        return StatementTarget(tables, ("hudi", path), path)
    if not given.get(procedure.named):
        instead = " or path => '/path'" if "path" in procedure.accepted else ""
        raise ConfigError(f"Cannot call {name} without a table; give {procedure.named} => 'name'{instead}")
    return named_target(tables, name, str(given[procedure.named]))


_HELP: Final = Procedure({"cmd": None}, "result STRING", lambda target, given: ())
PROCEDURES: Final[Mapping[str, Procedure]] = {
    **SERVICE_PROCEDURES,
    **BOOTSTRAP_PROCEDURES,
    **COMMIT_PROCEDURES,
    **COPY_PROCEDURES,
    **SHOW_PROCEDURES,
    **REPAIR_PROCEDURES,
    **MENDING_PROCEDURES,
    **AUDIT_PROCEDURES,
    **SYNC_PROCEDURES,
    "help": _HELP,
}
"""The procedures by name."""
STATEMENTS = (
    SqlStatement(
        ("CALL",),
        call,
        "`CALL procedure(...)`",
        "the procedures below",
    ),
    SqlStatement(
        ("SCHEDULE COMPACTION ON", "RUN COMPACTION ON", "SHOW COMPACTION ON"),
        compaction,
        "`SCHEDULE COMPACTION ON t`, `RUN COMPACTION ON t [AT instant]`, `SHOW COMPACTION ON t [LIMIT n]`",
        "as the procedures; also `ON '/path'`",
    ),
)
