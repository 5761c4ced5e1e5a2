"""Each pruner on its own: what it leaves out, when it applies, and how a further one is registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_py
from hudi_py.config import Options, Scope
from hudi_py.errors import CorruptFileError
from hudi_py.model.files import FileSlice
from hudi_py.read.planning.plan import plan_scan
from hudi_py.read.pruning import registry
from hudi_py.read.pruning.buckets import BY_BUCKET
from hudi_py.read.pruning.expression_indexes import BY_EXPRESSION_INDEX
from hudi_py.read.pruning.key_pruners import BY_BLOOM_FILTER, BY_FOOTER, BY_LOCATION
from hudi_py.read.pruning.pruner import Kept, Pruner, SoughtRows
from hudi_py.read.pruning.registry import BY_PATH
from hudi_py.read.pruning.statistics import BY_COLUMN_STATS, BY_PARTITION_STATS
from hudi_py.read.request import ScanArguments, ScanRequest
from hudi_py.read.snapshot import Snapshot, open_snapshot
from hudi_py.storage import open_storage
from hudi_py.timeline.state import load_state

BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}


def made(path: Path, options: Mapping[str, str], **how: Any) -> str:
    """A table with the partitions x, y and z of one file each, with the keys a and b, c and d, e and f."""
    rows = [{"id": key, "p": "xyz"[at // 2], "n": at + 1, "word": key.upper()} for at, key in enumerate("abcdef")]
    hudi_py.write(str(path), pa.Table.from_pylist(rows), options=options, record_key="id", partition_by="p", **how)
    return str(path)


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    path = made(tmp_path / "t", INDEXED)
    table = hudi_py.open_table(path, INDEXED)
    table.index("by_n", "n")
    table.index("low", "word", using="column_stats", index_options={"expr": "lower"})
    return path


class Looked:
    """A scan whose pruners are called one by one."""

    def __init__(self, path: str, options: Mapping[str, str] = INDEXED, **how: Any) -> None:
        state = load_state(open_storage(path))
        self.snapshot: Snapshot = open_snapshot(state, how.get("as_of"))
        self.request = ScanRequest.of(Options.resolve(options, Scope.READ), ScanArguments(**how))
        spec = plan_scan(self.snapshot, self.request).spec
        view = self.snapshot.view(by_metadata=True)
        metadata = self.snapshot.metadata("tested")
        self.sought = SoughtRows(self.snapshot, self.request, spec, metadata, given=False, escaped=False)
        self.sought.merged = True
        self.paths = view.partitions()
        self.slices = [slice_ for path in self.paths for slice_ in view.latest_slices(path)]

    def kept(self, pruner: Pruner[Any]) -> list[str] | None:
        """The partitions of what the pruner keeps, one for each slice; None if it does not apply or cannot decide."""
        items: list[Any] = list(self.paths if pruner in registry.OF_PARTITIONS else self.slices)
        kept = pruner.prune(self.sought, items) if pruner.applies(self.sought) else None
        return (
            None if kept is None else [item.partition if isinstance(item, FileSlice) else item for item in kept.items]
        )


def test_paths(indexed: str) -> None:
    assert Looked(indexed).kept(BY_PATH) == ["x", "y", "z"]
    assert Looked(indexed, filter="p > 'x'").kept(BY_PATH) == ["y", "z"]
    assert Looked(indexed, filter="p > 'x'", partitions=["y", "x"]).kept(BY_PATH) == ["y"]
    assert Looked(indexed, filter="n = 1").kept(BY_PATH) == ["x", "y", "z"]


def test_partition_stats(indexed: str) -> None:
    assert Looked(indexed, filter="n < 3").kept(BY_PARTITION_STATS) == ["x"]
    assert Looked(indexed).kept(BY_PARTITION_STATS) is None
    now = load_state(open_storage(indexed)).timeline.write_completed[-1].time
    assert Looked(indexed, filter="n < 3", as_of=now).kept(BY_PARTITION_STATS) is None


def test_column_stats(indexed: str) -> None:
    assert Looked(indexed, filter="n BETWEEN 2 AND 3").kept(BY_COLUMN_STATS) == ["x", "y"]
    assert Looked(indexed, keys=["e"]).kept(BY_COLUMN_STATS) == ["z"]
    assert Looked(indexed).kept(BY_COLUMN_STATS) is None


def test_expression_indexes(indexed: str) -> None:
    assert Looked(indexed, filter="lower(word) = 'f'").kept(BY_EXPRESSION_INDEX) == ["z"]
    assert Looked(indexed, filter="word = 'A'").kept(BY_EXPRESSION_INDEX) is None
    assert Looked(indexed).kept(BY_EXPRESSION_INDEX) is None


def test_buckets(tmp_path: Path) -> None:
    path = made(tmp_path / "t", BUCKETS)
    of_key = Looked(path, BUCKETS, filter="id = 'a'")
    kept = of_key.kept(BY_BUCKET)
    assert kept is not None
    assert 0 < len(kept) < len(of_key.slices)
    assert "x" in kept
    assert Looked(path, BUCKETS, filter="n = 1").kept(BY_BUCKET) is None
    assert Looked(path, BUCKETS).kept(BY_BUCKET) is None
    assert Looked(path, {}, filter="id = 'a'").kept(BY_BUCKET) is None


def test_locations(indexed: str) -> None:
    assert Looked(indexed, keys=["a", "f"]).kept(BY_LOCATION) == ["x", "z"]
    by_value = Looked(indexed, filter="n = 3")
    kept = BY_LOCATION.prune(by_value.sought, by_value.slices)
    assert kept is not None
    assert (kept.step, kept.why) == ("secondary index", "by_n: 1 key")
    assert [slice_.partition for slice_ in kept.items] == ["y"]
    assert Looked(indexed, filter="n > 3").kept(BY_LOCATION) is None
    unmerged = Looked(indexed, keys=["a"])
    unmerged.sought.merged = False
    assert unmerged.kept(BY_LOCATION) is None


def test_bloom_filters(indexed: str) -> None:
    looked = Looked(indexed, keys=["c"])
    assert looked.kept(BY_BLOOM_FILTER) == ["y"]
    assert {partition for partition, _ in looked.sought.answered} == {"x", "y", "z"}
    assert looked.kept(BY_FOOTER) is None, "the footers were not asked for once more"
    assert Looked(indexed, filter="n = 1").kept(BY_BLOOM_FILTER) is None


def test_footers(tmp_path: Path) -> None:
    path = made(tmp_path / "t", {})
    assert Looked(path, {}, keys=["c"]).kept(BY_FOOTER) == ["y"]
    assert Looked(path, {}, filter="n = 1").kept(BY_FOOTER) is None
    one = Looked(path, {}, keys=["c"], partitions=["x"])
    one.slices = one.slices[:1]
    assert one.kept(BY_FOOTER) is None, "of one file, reading it tells as much"


def test_each_has_a_name_of_its_own_and_a_test() -> None:
    pruners: list[Pruner[Any]] = [*registry.OF_PARTITIONS, *registry.OF_SLICES]
    assert len({pruner.name for pruner in pruners}) == len(pruners)
    tests = (BY_PATH, BY_PARTITION_STATS, BY_COLUMN_STATS, BY_EXPRESSION_INDEX, BY_BUCKET, BY_LOCATION)
    assert {*pruners} == {*tests, BY_BLOOM_FILTER, BY_FOOTER}


def _first(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice]:
    return Kept(slices[:1], "made up")


def _damaged(sought: SoughtRows, slices: list[FileSlice]) -> Kept[FileSlice]:
    raise CorruptFileError("a made-up index is damaged")


MADE_UP = Pruner("made-up index", lambda sought: sought.condition is not None, _first)


def test_a_further_one_is_a_row_of_the_registry(indexed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "OF_SLICES", (*registry.OF_SLICES, MADE_UP))
    table = hudi_py.open_table(indexed)
    assert "made-up index    3 -> 1 slices  (made up)" in table.scan(filter="n > 0").explain()
    assert "made-up index" not in table.scan().explain()
    off = {"hoodie.enable.data.skipping": "false"}
    assert "made-up index" not in table.scan(filter="n > 0", options=off).explain()
    monkeypatch.setattr(registry, "OF_SLICES", (replace(MADE_UP, prune=_damaged), BY_FOOTER))
    with pytest.warns(UserWarning, match="a made-up index is damaged"):
        assert table.scan(filter="n > 0").count() == 6
    monkeypatch.setattr(registry, "OF_SLICES", (replace(MADE_UP, prune=_damaged, by_metadata=False),))
    with pytest.raises(CorruptFileError, match="made-up"):
        table.scan(filter="n > 0")


def test_the_plan_names_no_index() -> None:
    source = Path(plan_scan.__code__.co_filename).read_text()
    assert not [name for name in ("stats", "bloom", "record_index", "buckets", "footers") if name in source]
