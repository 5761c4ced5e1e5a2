"""Names and values of a table that would steer a terminal: each command shows them as escapes."""

from __future__ import annotations

import json
import logging
import re
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.cli.main import _show_warnings
from hudi_py.cli.screen import Screen, ScreenColumn
from hudi_py.errors import HudiError
from tests.unit.cli.conftest import Run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

COMMANDS = [
    ("show",),
    ("show", "--properties"),
    ("timeline",),
    ("files",),
    ("partitions",),
    ("schema",),
    ("stats",),
    ("plans",),
    ("doctor", "--full"),
    ("repair", "--dry-run"),
    ("savepoint", "list"),
    ("index", "list"),
    ("read",),
    ("read", "--filter", "id = '1'", "--columns", "id"),
    ("explain", "--filter", "id = '1'"),
    ("metadata", "verify"),
    ("diff", "20200101000000000"),
]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose name, partitions, values, savepoint and payload class steer a terminal; healthy but for
    a file that no instant wrote."""
    path = tmp_path_factory.mktemp("evil") / "t"
    rows = pa.table({"id": ["1", "2"], "p": [EVIL, "b"], "c": [EVIL, None]})
    result = hudi_py.write(path, rows, record_key="id", partition_by="p", table_type="mor", table_version=8)
    table = hudi_py.open_table(path)
    table.savepoint(result, user=EVIL, comment=EVIL)
    (stray := path / "b" / f"f{EVIL}_0-0-0_20200101000000000.parquet").write_bytes(b"")
    assert stray.exists()
    properties = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.checksum")]
    escaped = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
    lines = [line if not line.startswith("hoodie.table.name") else f"hoodie.table.name=t{escaped}" for line in lines]
    lines.append(f"x.y={escaped}")
    properties.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True])
def test_commands_show_escapes(cli: Run, evil: Path, command: tuple[str, ...], as_json: bool) -> None:
    name, *more = command
    words = [name, more.pop(0)] if name in ("savepoint", "index", "metadata") else [name]
    try:
        ran = cli(*words, evil, *more, *(["--json"] if as_json and name not in ("read", "explain") else []))
    except AssertionError:  # 5: something to fix was found
        ran = cli(*words, evil, *more, *(["--json"] if as_json else []), code=5)
    assert not STEERING.search(ran.out), ran.out
    assert not STEERING.search(ran.err), ran.err
    if as_json and name not in ("read", "explain"):
        found = [json.loads(line) for line in ran.out.splitlines()]
        assert name != "partitions" or {row["partition"] for row in found} == {EVIL, "b"}


def test_rows_as_json_lines_and_the_page(cli: Run, evil: Path, tmp_path: Path) -> None:
    ran = cli("read", evil, "--to", "json", "--columns", "id,p")
    assert not STEERING.search(ran.out)
    assert {row["p"] for row in ran.lines} == {EVIL, "b"}
    page = tmp_path / "t.html"
    assert not STEERING.search(cli("report", evil, "--output", page).err)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page.read_text())


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("debug", [False, True])
def test_errors_show_escapes(cli: Run, evil: Path, tmp_path: Path, as_json: bool, debug: bool) -> None:
    import shutil

    path = tmp_path / "t"
    shutil.copytree(evil, path)
    flags = [*(["--json"] if as_json else []), *(["--debug"] if debug else [])]
    ran = cli("files", path, "-p", "nope", *flags, code=2)
    assert not STEERING.search(ran.err)
    assert r"\x1b]0;owned" in ran.err
    properties = path / ".hoodie" / "hoodie.properties"
    escaped = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
    properties.write_text(
        re.sub("hoodie.record.merge.mode=.*", "hoodie.record.merge.mode=CUSTOM", properties.read_text())
        + f"\nhoodie.compaction.payload.class=a.{escaped}\nhoodie.table.base.file.format={escaped}"
    )
    ran = cli("show", path, *flags, code=6)
    assert not STEERING.search(ran.err)
    with pytest.raises(HudiError) as caught:  # whoever shows it
        hudi_py.open_table(path).scan()
    assert not STEERING.search(str(caught.value))


def test_results_and_plans_in_python(evil: Path) -> None:
    with pytest.warns(UserWarning, match=r"No statistics for the file f\\x1b") as warned:
        verified = hudi_py.open_table(evil).metadata.verify()
    for shown in (hudi_py.doctor(evil), hudi_py.repair_plan(evil), verified, *(each.message for each in warned)):
        assert not STEERING.search(str(shown)), str(shown)
    scan = hudi_py.open_table(evil).scan()
    assert not STEERING.search(scan.explain())
    assert r"\x1b]0;owned" in scan.explain()
    assert not STEERING.search(repr(scan))


def test_whatever_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.title(EVIL, EVIL)
    screen.heading(EVIL)
    screen.path(EVIL)
    screen.line(EVIL)
    screen.note(EVIL)
    screen.facts([(EVIL, EVIL)])
    screen.table([ScreenColumn(EVIL)], [[EVIL]], empty="")
    screen.json({EVIL: EVIL})
    with warnings.catch_warnings():
        _show_warnings()
        warnings.warn(EVIL, UserWarning, stacklevel=1)
        logging.getLogger("hudi_py").warning("%s", EVIL)
    found = capsys.readouterr()
    assert found.out.count("owned") == 11
    assert found.err.count("Warning: \\x1b]0;owned") == 2
    assert not STEERING.search(found.out + found.err)
