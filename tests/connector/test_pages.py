"""The blocks of the documentation that need Spark run, with the others of their pages, from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_hudi import sql
from tests.support.pages import has_spark, run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if has_spark(page))


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_blocks_run(spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tmp", "data"):
        (tmp_path / name).mkdir()
    assert run_page(page, tmp_path, {"__name__": "page", "spark": spark}, lambda text: sql(spark, text).collect())
