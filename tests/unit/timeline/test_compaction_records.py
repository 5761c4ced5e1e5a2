"""Plans of compactions: what is written is read again, and is what Apache Hudi wrote."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.timeline.plans import (
    LOG_COMPACTION_HELPER,
    CompactionOperation,
    CompactionPlan,
    decode_compaction_plan,
    encode_compaction_plan,
)
from tests.golden import tables

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
OPERATIONS = st.builds(
    CompactionOperation,
    partition_path=NAMES,
    file_id=NAMES,
    base_instant=NAMES,
    base_file=st.none() | NAMES,
    log_files=st.lists(NAMES, max_size=3).map(tuple),
    metrics=st.dictionaries(NAMES, st.floats(allow_nan=False), max_size=3),
    bootstrap_file=st.none() | NAMES,
)
PLANS = st.builds(
    CompactionPlan,
    operations=st.lists(OPERATIONS, max_size=4).map(tuple),
    missing_partitions=st.none() | st.lists(NAMES, max_size=3).map(tuple),
    extra=st.dictionaries(NAMES, NAMES, max_size=3),
)


@given(PLANS, st.booleans())
def test_what_is_written_is_read_again(plan: CompactionPlan, log_compaction: bool) -> None:
    data = encode_compaction_plan(plan, log_compaction=log_compaction)
    assert decode_compaction_plan(data) == plan
    (record,) = fastavro.reader(io.BytesIO(data))
    assert record["version"] == 2
    assert record["preserveHoodieMetadata"] is log_compaction
    strategy = {"compactorClassName": LOG_COMPACTION_HELPER, "strategyParams": {}, "version": 1}
    assert record["strategy"] == (strategy if log_compaction else None)


@pytest.mark.parametrize("name", ["v8_mor_compaction_pending", "v9_mor_compaction", "v9_mor_logcompaction"])
def test_plans_of_apache_hudi_are_written_as_they_are(name: str, tmp_path) -> None:
    table = tables.load()[name]
    plans = [*table.extract(tmp_path).glob(".hoodie/timeline/*compaction.requested")]
    assert plans
    for path in plans:
        theirs = path.read_bytes()
        own = encode_compaction_plan(decode_compaction_plan(theirs), log_compaction="logcompaction" in path.name)
        assert next(fastavro.reader(io.BytesIO(own))) == next(fastavro.reader(io.BytesIO(theirs)))
