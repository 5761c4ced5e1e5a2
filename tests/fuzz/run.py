"""Feeds targets in processes of their own, whose memory is bounded and whose every input has a time limit."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

SECONDS: Final = 20.0
"""Of the processor, for one input; they take milliseconds."""
STALLED: Final = 300.0
"""Of the clock, for one that waits for something, or on a machine with much other work."""
MEMORY: Final = 3 << 30
"""Bytes of address space beyond what the process has when it begins."""


@dataclass(slots=True)
class Failure:
    target: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.target} {self.number}: {self.what}"


@dataclass(slots=True)
class Figures:
    inputs: int = 0
    values: int = 0
    errors: int = 0
    peak_kb: int = 0
    failures: list[Failure] = field(default_factory=list)


def feed(target: str, numbers: range, began: Callable[[int], None], figures: Figures) -> None:
    """Runs inputs in this process. Whatever is neither a value nor a `HudiError` is a failure."""
    # Imported where the inputs are run: a process that only watches over others needs neither Arrow nor the corpus
    from hudi_py.errors import HudiError
    from tests.fuzz.targets import TARGETS, input_of

    run = TARGETS[target].run
    for number in numbers:
        began(number)
        given = input_of(target, number)
        figures.inputs += 1
        try:
            run(given)
            figures.values += 1
        except HudiError:
            figures.errors += 1
        except Exception as error:
            figures.failures.append(Failure(target, number, f"{type(error).__name__}: {error}"[:300]))
            if isinstance(error, MemoryError):
                gc.collect()
    figures.peak_kb = max(figures.peak_kb, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _bound_memory() -> None:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(target: str, start: int, stop: int, at: Any, since: Any, results: Any) -> None:
    from tests.fuzz import targets  # the bound is above what the imports take

    targets.input_of(target, start)
    if os.path.exists("/proc/self/statm"):
        _bound_memory()
    figures = Figures()

    def began(number: int) -> None:
        since[:] = time.monotonic(), time.process_time()
        at.value = number

    feed(target, range(start, stop), began, figures)
    results.send(figures)


def _processor_seconds(pid: int | None) -> float:
    """What a process has used; 0 where the system has no such file."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Runner:
    """One process at a time, which is replaced when it dies or hangs."""

    def __init__(self, target: str, numbers: range) -> None:
        self.target = target
        self.figures = Figures()
        self._next, self._stop = numbers.start, numbers.stop
        self._context = multiprocessing.get_context("spawn")
        self._begin()

    def _begin(self) -> None:
        self._at = self._context.Value("q", -1, lock=False)
        self._since = self._context.Array("d", (time.monotonic(), 0.0), lock=False)
        self._results, sender = self._context.Pipe(duplex=False)
        arguments = (self.target, self._next, self._stop, self._at, self._since, sender)
        self._process = self._context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        sender.close()

    def finished(self) -> bool:
        """Looks after the process; true when the last input is done."""
        if self._results.poll(0.1):
            try:
                self._add(self._results.recv())
                self._process.join()
                return True
            except EOFError:
                self._process.join()
                return self._lost(f"the process died with exit code {self._process.exitcode}")
        began, used = self._since
        # Before the first input it imports, which takes the longer the more the machine has to do
        busy = self._at.value >= 0 and _processor_seconds(self._process.pid) - used > SECONDS
        if busy or time.monotonic() - began > STALLED:
            self._process.kill()
            self._process.join()
            return self._lost(f"took more than {SECONDS:.0f} seconds of the processor, or {STALLED:.0f} of the clock")
        return False

    def _lost(self, what: str) -> bool:
        """Notes the input that ended a process. What it had counted is gone with it: all of it is run, none failed."""
        number = self._at.value
        self.figures.failures.append(Failure(self.target, number, what))
        if number < 0:  # it did not even begin
            return True
        self.figures.inputs += number - self._next + 1
        self._next = number + 1
        if self._next >= self._stop:
            return True
        self._begin()
        return False

    def _add(self, other: Figures) -> None:
        self.figures.inputs += other.inputs
        self.figures.values += other.values
        self.figures.errors += other.errors
        self.figures.peak_kb = max(self.figures.peak_kb, other.peak_kb)
        self.figures.failures += other.failures


def shares(weights: dict[str, int], count: int) -> Iterator[tuple[str, int]]:
    """How many of `count` inputs each target gets."""
    total = sum(weights.values())
    for name, weight in weights.items():
        yield name, max(1, count * weight // total)
