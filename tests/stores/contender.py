"""A process that goes through critical sections under a lock of ours: the counterpart of `java/Contender.java`.

python -m tests.stores.contender NUMBER MILLISECONDS WITNESS END URI OPTIONS STORAGE_OPTIONS

The last two are JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

from hudi_py.config import Options
from hudi_py.storage import open_storage
from hudi_py.transaction.locks import table_lock
from hudi_py.transaction.locks.settings import LockSettings


def main(arguments: list[str]) -> None:
    number, pause_ms, witness, end, uri, options, storage_options = arguments
    resolved = Options.resolve(json.loads(options), defaults={})
    credentials = json.loads(storage_options) or None
    storage = open_storage(uri, credentials)
    settings = LockSettings.of(resolved)
    overlaps = 0
    print("ready", flush=True)
    for turn in range(1, int(number) + 1):
        with table_lock(storage, settings, purpose="test", storage_options=credentials) as lock:
            try:
                os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                overlaps += 1
            print("in", flush=True)
            time.sleep(int(pause_ms) / 1000)
            lock.check()
            if end == "kill" and turn == int(number):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(witness)
                print("halts", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                os.unlink(witness)
            except FileNotFoundError:
                overlaps += 1
        time.sleep(0.005)
    print(f"done {number} overlaps {overlaps}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
