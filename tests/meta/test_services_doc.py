"""docs/services.md says what is: examples, fields of reports, and the options of services with their defaults."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

import hudi_py
from hudi_py.cli.main import main
from hudi_py.config.options import HONOURED
from hudi_py.metadata_write.maintenance.verify import PartitionCheck, VerifyReport
from hudi_py.services.archive import ArchiveReport
from hudi_py.services.bucket_resize.service import ResizeReport
from hudi_py.services.buckets import BucketReport
from hudi_py.services.clean import CleanReport
from hudi_py.services.clustering.service import ClusteringReport
from hudi_py.services.compaction import CompactionReport
from hudi_py.services.descriptor import Service
from hudi_py.services.planned.service import ServiceReport
from hudi_py.services.recovery.restore import RestoreReport
from hudi_py.services.recovery.rollback import RollbackReport
from hudi_py.services.recovery.savepoint import SavepointReport
from hudi_py.services.registry import SERVICES
from hudi_py.services.ttl import TtlReport
from hudi_py.services.upgrade.service import VersionReport
from tests.meta.sources import ROOT
from tools import services

TEXT = (ROOT / "docs" / "services.md").read_text(encoding="utf-8")
KNOWN = {key: option for option in HONOURED for key in option.keys}
OF_ALL = {field.name for field in fields(ServiceReport)}
REPORTS = (
    BucketReport,
    ClusteringReport,
    ResizeReport,
    CompactionReport,
    CleanReport,
    ArchiveReport,
    SavepointReport,
    RollbackReport,
    RestoreReport,
    TtlReport,
    VersionReport,
)


def rows(section: str) -> Iterator[list[str]]:
    """Cells of the rows of a section's table."""
    body = re.split(r"^#+ ", TEXT, flags=re.MULTILINE)
    (chosen,) = [part for part in body if part.startswith(section + "\n")]
    table = [line for line in chosen.splitlines() if line.startswith("|")]
    for line in table[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def examples(path: str) -> list[str]:
    """Blocks of Python of a document in which the core alone is used."""
    text = (ROOT / path).read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "table = hudi_py.open_table(" in block]


def test_the_example_runs(tmp_path: Path) -> None:
    """As they stand, on a table of a few writes; the instant to roll back is the newest one."""
    path = str(tmp_path / "trips")
    for ts in range(3):
        rows = [{"id": "a", "ts": ts, "city": "oslo"}, {"id": "b", "ts": ts, "city": "lima"}]
        hudi_py.write(path, rows, record_key="id", ordering_by="ts", partition_by="city", table_type="mor")
    (code,) = examples("docs/services.md")
    code = re.sub(r'open_table\(".*?"\)', f"open_table({path!r})", code)
    code = code.replace('"20260131101530123"', 'table.history()["instant"][-1].as_py()')
    known: dict[str, Any] = {"hudi_py": hudi_py}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(code, known)
    assert known["saved"]
    assert hudi_py.open_table(path).metadata.verify().ok
    assert hudi_py.open_table(path).scan().count() == 2


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.__name__)
def test_the_fields_of_a_report(report: type[ServiceReport]) -> None:
    (told,) = [quoted(cells[2]) for cells in rows("Reports") if quoted(cells[0]) == [report.__name__]]
    assert set(told) == {field.name for field in fields(report)} - OF_ALL


def test_the_table_of_services_is_current() -> None:
    assert services.updated(TEXT) == TEXT, "the table of docs/services.md is out of date: run `make docs-pages`"


@pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))
def test_commands_of_services_exist(service: Service[Any]) -> None:
    found: click.Command = main
    for word in (service.command or "run").split():
        assert isinstance(found, click.Group)
        found = found.commands[word]
    asks = any("--yes" in param.opts for param in found.params)
    assert asks == (service.asks != "") or not service.command


def test_the_fields_of_a_verify_report() -> None:
    (told,) = [quoted(cells[2]) for cells in rows("Reports") if quoted(cells[0]) == ["VerifyReport"]]
    known = {*(field.name for field in fields(VerifyReport)), *(field.name for field in fields(PartitionCheck))}
    assert set(told) == {*known, "ok"} - {"partition", "reason"}


def test_options_and_their_defaults() -> None:
    seen = 0
    for cells in rows("Options"):
        first, *others = [name for name in quoted(cells[1]) if name.startswith((".", "hoodie."))]
        keys = [first, *(first.rpartition(".")[0].rpartition(".")[0] + key if key[0] == "." else key for key in others)]
        defaults = re.sub(r"^the one .*", "", cells[2]).split(", ")
        for key, default in zip(keys, defaults, strict=True):
            value = KNOWN[key].default
            text = ",".join(value) if isinstance(value, tuple) else str(value if value is not None else "")
            assert text.lower() == default.lower(), key
            seen += 1
    assert seen >= 15


def test_every_option_named_is_known() -> None:
    prose = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    named = {name.partition("=")[0] for name in quoted(prose) if name.startswith("hoodie.")}
    assert len(named) > 20
    assert not {name for name in named if name not in KNOWN}
