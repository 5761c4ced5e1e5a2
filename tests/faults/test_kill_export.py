"""An export killed at every call that changes its target: no table and no rows can be read there."""

from __future__ import annotations

import pytest

from hudi_py.errors import ConfigError, TableNotFoundError
from hudi_py.interop.export import FORMATS, ExportRequest, export_table
from hudi_py.progress import Progress
from hudi_py.storage import Storage
from hudi_py.timeline.state import load_state
from tests.faults.killing import Killed
from tests.faults.test_kill_metadata import KillingMemory, copy_of
from tests.support.choice import every
from tests.unit.metadata_write import memory_tables

OPTIONS = {"hoodie.py.write.threads": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("version", [6, 9])
def test_nothing_can_be_read(version: int, form: str) -> None:
    source = copy_of({})
    for ts in range(1, 4):
        memory_tables.write(source, memory_tables.rows(range(4), ts), version=version)
    expected = memory_tables.read(source)

    def export(target: Storage) -> None:
        export_table(load_state(source), target, OPTIONS, ExportRequest(form), Progress.silent())

    whole = KillingMemory(copy_of({}))
    export(whole)
    for call in every(2, len(whole.calls)):
        target = copy_of({})
        with pytest.raises(Killed):
            export(KillingMemory(target, call))
        where = f"{call} of {len(whole.calls)}: {whole.calls[call]}"
        if form == "parquet":
            assert target.stat("_SUCCESS") is None, where
        else:
            with pytest.raises(TableNotFoundError):
                load_state(target)
        left = [info.path for info in target.walk()]
        if left:
            with pytest.raises(ConfigError, match="what an export that was killed left there"):
                export(target)
        for path in left:
            target.delete(path)
        export(target)
        if form == "hudi":
            assert memory_tables.read(target) == expected, where
