"""Long runs of damaged inputs.

python -m tests.fuzz --count 1000000              # spread over all targets
python -m tests.fuzz --count 5000 --targets log,kryo --first 70000
python -m tests.fuzz --show log 4711              # one input again, with its traceback
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.run import Failure, Runner, shares

CHUNK = 20_000
SHOWN = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="inputs in all")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each target")
    parser.add_argument("--targets", default="", help="names, separated by commas; default: all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", nargs=2, metavar=("TARGET", "NUMBER"))
    given = parser.parse_args()
    from tests.fuzz.targets import TARGETS, input_of

    if given.show:
        target, number = given.show[0], int(given.show[1])
        data = input_of(target, number)
        print(repr(data)[:4000])
        TARGETS[target].run(data)
        print("a value")
        return 0
    names = [name for name in given.targets.split(",") if name] or list(TARGETS)
    began = time.monotonic()
    waiting: list[tuple[str, range]] = []
    for name, count in shares({name: TARGETS[name].weight for name in names}, given.count):
        for start in range(given.first, given.first + count, CHUNK):
            waiting.append((name, range(start, min(start + CHUNK, given.first + count))))
    waiting.reverse()
    running: list[Runner] = []
    lines: dict[str, list[int]] = {name: [0, 0, 0, 0, 0] for name in names}
    failures: list[Failure] = []
    while waiting or running:
        while waiting and len(running) < given.workers:
            running.append(Runner(*waiting.pop()))
        for runner in list(running):
            if runner.finished():
                running.remove(runner)
                found = runner.figures
                line = lines[runner.target]
                for at, value in enumerate((found.inputs, found.values, found.errors, len(found.failures))):
                    line[at] += value
                line[4] = max(line[4], found.peak_kb)
                failures += found.failures
                for failure in found.failures[:20]:
                    print(f"FAILED {failure}", flush=True)
                print(f"{runner.target}: {line[0]} inputs, {line[3]} failures", flush=True)
    print(f"{'target':<16}{'inputs':>10}{'values':>10}{'errors':>10}{'failures':>10}{'peak MB':>10}")
    for name, line in lines.items():
        print(f"{name:<16}{line[0]:>10}{line[1]:>10}{line[2]:>10}{line[3]:>10}{line[4] // 1024:>10}")
    total = sum(line[0] for line in lines.values())
    print(f"{total} inputs, {len(failures)} failures, {time.monotonic() - began:.0f} seconds")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
