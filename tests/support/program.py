"""The command line, run in this process."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from click.testing import CliRunner

import hudi_py
from hudi_py.cli.main import main

# Before 8.2, click has to be told to keep standard error apart
APART: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run_program(*args: object, code: int | None = 0, input: bytes | None = None) -> Ran:
    """Runs a command whose output is not a terminal; `code` is the exit code that it must have, None any."""
    log = logging.getLogger("hudi_py")
    handlers, propagates = [*log.handlers], log.propagate
    try:
        result = CliRunner(**APART).invoke(main, [str(argument) for argument in args], input=input)
    finally:  # a program may take all warnings for itself, a test may not
        log.handlers[:], log.propagate = handlers, propagates
    assert code is None or result.exit_code == code, (result.output, result.exception)
    return Ran(result.exit_code, result.stdout, result.stderr)


def answer(*args: object, options: Mapping[str, str] | None = None) -> Any:
    """Runs a command with `--json`: what it prints, or None. The error that it tells of is raised in its class.

    Args:
        options: by their keys.
    """
    given = [text for key, value in (options or {}).items() for text in ("-o", f"{key}={value}")]
    ran = run_program(*args, *given, "--json", code=None)
    if ran.code == 0:
        return ran.json if ran.out.strip() else None
    told = json.loads(ran.err.splitlines()[-1])
    assert told["exit_code"] == ran.code
    kind = getattr(hudi_py, told["error"], None)
    assert kind is not None, told
    raise kind(told["message"])
