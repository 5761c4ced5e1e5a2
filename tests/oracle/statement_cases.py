"""Statements of SQL whose results Apache Hudi and hudi-py are asked for, and how to run them on either.

`statements/*.sql` has the cases, `statements/answers.json` what Apache Hudi 1.2.0 answered. A file reads:

    # Classes of Apache Hudi's tests that have such cases, separated by blanks
    == a name [kind: cow, mor]        a case for each value, which stands for {kind} in what follows; where several
                                      names have values, these take turns
    differs: deliberate.md: a text    hudi-py answers the next statement otherwise, maybe those after it too, as a page
                                      of docs/differences says with this text
    % hoodie.x = y                    a setting of the session while the case runs
    %% hoodie.x = y                   one of Apache Hudi's session alone
    CREATE TABLE {t} (id INT) ...;    statements end with a semicolon at the end of a line; {t}, {t2} are tables,
    ? SELECT id FROM {t};             {path} a folder of the case. The rows of statements after ? are compared,
    ! [ts, key|id] INSERT INTO ...;   those after ! fail, and the errors of both name the words in brackets, if any, of
                                      words between | one,
    @ first = SELECT ...;             and the first value of a row gets the name {first}

This module runs within the oracle as well, and imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Callable, Iterator  # noqa: UP035  the oracle may run on Python 3.9

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "statements")
ANSWERS = os.path.join(FOLDER, "answers.json")
_PARAMETER = re.compile(r"\[(\w+): ([^\]]+)\]")
_WORDS = re.compile(r"(?:\[([^\]]*)\])?\s*")


@dataclass(frozen=True)
class Case:
    name: str
    """Unique: that of its file, its own, and its values."""
    classes: tuple[str, ...]
    differs: str
    """Empty: both answer alike."""
    alike: int
    """So many statements come before the first that is answered otherwise."""
    settings: dict[str, str]
    java_settings: dict[str, str]
    """Of Apache Hudi's session alone."""
    statements: tuple[str, ...]
    """With their signs."""


def read_cases(folder: str = FOLDER) -> list[Case]:
    """The cases of all files, by name of the file and in their order."""
    found: list[Case] = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".sql"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found += _cases(name[: -len(".sql")], file.read())
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"several cases have the name {', '.join(sorted(twice))}")
    return found


def _cases(stem: str, text: str) -> Iterator[Case]:
    head, *parts = re.split(r"^== ", text, flags=re.MULTILINE)
    classes = tuple(re.sub(r"^#", "", head, flags=re.MULTILINE).split())
    for part in parts:
        title, _, body = part.partition("\n")
        given = [(key, [each.strip() for each in values.split(",")]) for key, values in _PARAMETER.findall(title)]
        own = _PARAMETER.sub("", title).strip()
        for turn in range(max([len(values) for _, values in given], default=1)):
            values = {key: values[turn % len(values)] for key, values in given}
            chosen = list(values.values())
            yield _case(" ".join([f"{stem}: {own}", *chosen]), classes, body, values)


def _case(name: str, classes: tuple[str, ...], body: str, values: dict[str, str]) -> Case:
    for key, value in values.items():
        body = body.replace("{" + key + "}", value)
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    before, differs, after = _parted(lines)
    return Case(name, classes, differs, len(before), _settings(lines, "%"), _settings(lines, "%%"), before + after)


def _settings(lines: list[str], sign: str) -> dict[str, str]:
    """Those of lines with this sign."""
    matched = (re.fullmatch(r"(%+)\s*(\S+)\s*=\s*(.*)", line.strip()) for line in lines)
    return {each[2]: each[3] for each in matched if each and each[1] == sign}


def _parted(lines: list[str]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The statements before a difference, where it is documented, and the statements after; without one, all are
    before it."""
    place = next((place for place, line in enumerate(lines) if line.startswith("differs:")), len(lines))
    differs = lines[place][len("differs:") :].strip() if place < len(lines) else ""
    return _statements(lines[:place]), differs, _statements(lines[place + 1 :])


def _statements(lines: list[str]) -> tuple[str, ...]:
    text = "\n".join(line for line in lines if not line.startswith("%"))
    return tuple(each.strip() for each in re.split(r";[ \t]*(?:\n|$)", text) if each.strip())


def run_case(sql: Callable[[str], Any], case: Case, folder: str, number: int) -> list[list[Any]]:
    """What each statement gives: `["done"]`, `["rows", ...]`, `["failed", error]`, and where no error is expected
    `["error", error]`. Errors are texts: `Class: first line`, and the innermost cause after ` <- `.

    Args:
        sql: runs a statement; its result has `collect`.
        folder: an empty one, for tables.
        number: unique in the session, for the names of tables.
    """
    names = {each: f"st_{each}_{number}" for each in re.findall(r"\{(t\d*)\}", " ".join(case.statements))}
    names["path"] = folder
    settings = [f"SET {key}={value}" for key, value in case.settings.items()]
    found = []
    try:
        for setting in settings:
            sql(setting)
        for statement in case.statements:
            found.append(_outcome(sql, statement, names))
    finally:
        for key in case.settings:
            sql(f"RESET {key}")
        for name in {value for key, value in names.items() if key[0] == "t"}:
            _quietly(sql, f"DROP TABLE IF EXISTS {name}")
    return found


def _outcome(sql: Callable[[str], Any], statement: str, names: dict[str, str]) -> list[Any]:
    sign, text = (statement[0], statement[1:].strip()) if statement[0] in "?!@" else ("", statement)
    if sign == "!":
        text = text[_WORDS.match(text).end() :]  # type: ignore[union-attr]  # matches everything
    variable = ""
    if sign == "@":
        variable, _, text = (each.strip() for each in text.partition("="))
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    try:
        rows = sql(text).collect()
    except Exception as error:  # any error is an answer
        shown = _cause(error)
        for key in sorted((key for key in names if len(names[key]) > 5), key=lambda key: -len(names[key])):
            shown = shown.replace(names[key], "{" + key + "}")
        return ["failed" if sign == "!" else "error", shown[:400]]
    if variable:
        names[variable] = str(rows[0][0])
    return ["rows", *sorted(([_value(each) for each in row] for row in rows), key=repr)] if sign == "?" else ["done"]


def words(statement: str) -> list[str]:
    """Those that its error must name, in small letters."""
    given = _WORDS.match(statement[1:].strip()) if statement.startswith("!") else None
    listed = (given[1] if given else None) or ""
    return [word.strip().lower() for word in listed.split(",") if word.strip()]


def _cause(error: Any) -> str:
    """A refusal in short: of errors of Java, what Java says rather than Py4J."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return _line(f"{type(error).__name__}: {error}")
    outer = _line(str(java.toString()))
    while java.getCause() is not None:
        java = java.getCause()
    inner = _line(str(java.toString()))
    if inner in outer or outer.startswith("SparkException: Job aborted"):
        return inner if outer.startswith("SparkException") else outer
    return f"{outer} <- {inner}"


def _line(text: str) -> str:
    """Its first line, without the packages of its class."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return re.sub(r"^(?:[a-z]\w*\.)+(?=[A-Z])", "", first)


def _quietly(sql: Callable[[str], Any], text: str) -> None:
    with contextlib.suppress(Exception):  # a view, or something else of this name
        sql(text)


def _value(value: Any) -> Any:
    """A value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): _value(value[key]) for key in sorted(value, key=repr)}
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return "0x" + bytes(value).hex()
    if isinstance(value, (Decimal, datetime.date)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def read_answers() -> dict[str, list[list[Any]]]:
    """Apache Hudi's, by name of the case."""
    with open(ANSWERS, encoding="utf-8") as file:
        found: dict[str, list[list[Any]]] = json.load(file)
    return found


def write_answers(answers: dict[str, list[list[Any]]]) -> None:
    with open(ANSWERS, "w", encoding="utf-8") as file:
        file.write("{\n")
        lines = (f"{json.dumps(name)}: {json.dumps(answers[name], ensure_ascii=False)}" for name in sorted(answers))
        file.write(",\n".join(lines) + "\n}\n")
