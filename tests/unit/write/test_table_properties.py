"""What is stored of new tables, and what is refused, over a sample of versions, key generators, merges and formats.

Each line of the data has the options that make a table, those of a later write, and the properties or the refusal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudi_py.config import Options
from hudi_py.errors import HudiError
from hudi_py.model.properties import TableConfig
from hudi_py.write.table.properties import PROPERTIES, check_options, table_properties

LINES = (Path(__file__).parent / "data" / "table_properties.jsonl").read_text("utf-8").splitlines()


def outcome(made_with: dict[str, str], asked: dict[str, str] | None) -> dict[str, str] | str:
    try:
        properties = table_properties(Options.resolve(made_with, defaults={}))
        if asked is None:
            return properties
        check_options(TableConfig(properties), Options.resolve(asked, defaults={}))
    except HudiError as error:
        return f"{type(error).__name__}: {error}"
    return "fits"


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_properties_and_refusals(line: str) -> None:
    case: dict[str, Any] = json.loads(line)
    assert outcome(case["made with"], case.get("asked")) == case["result"]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_each_property_has_one_value_in_a_version(version: int) -> None:
    keys = [each.key for each in PROPERTIES if each.in_version(version)]
    assert len(keys) == len(set(keys))
    options = [each.option for each in PROPERTIES if each.option is not None]
    assert len(options) == len(set(options))
