"""The README's example is short, and runs as pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_hudi import disable

README = Path(__file__).parents[2] / "README.md"
MAX_LINES = 10


def test_the_example_is_short_and_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, "README.md has no ```python block"
    code = found[1].replace('"/tmp/', f'"{tmp_path}/')
    counted = [line for line in code.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(counted) <= MAX_LINES
    try:
        exec(code, {})
    finally:
        disable(spark)
    shown = re.search(r"^```text\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown, "README.md has no ```text block with the example's output"
    assert capsys.readouterr().out == shown[1]
    assert spark.read.format("hudi-py").load(f"{tmp_path}/trips").where("id = 'b'").first()["fare"] == 8.5  # type: ignore[index]
