"""Slices told by names alone agree with those of the file system view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.model.names import parse_base_file_name, parse_log_file_name
from hudi_py.services.clean.slices import Slicer, is_data_file, split_base_name, split_log_name
from hudi_py.timeline.state import TableState
from hudi_py.view import load_view
from tests.support.clean_tables import HandMadeTable

PARTS = st.lists(
    st.sampled_from(
        [
            "_",
            ".",
            "-",
            "f1",
            "0-1-0",
            "20240101000000000",
            "parquet",
            "log",
            "1",
            "cdc",
            "hfile",
            "x",
            ".log.",
            ".cdc",
            "",
        ]
    ),
    max_size=12,
).map("".join)
NEAR_BASE = st.tuples(PARTS, st.sampled_from(["0-1-0", "", "a"]), PARTS).map(lambda parts: "_".join(parts))
NEAR_LOG = st.tuples(PARTS, PARTS).map(lambda parts: f".{parts[0]}.log.{parts[1]}")
NAMES = st.one_of(
    PARTS,
    NEAR_BASE,
    NEAR_LOG,
    st.sampled_from(
        [
            "f-0_1-2-3_20240101000000000.parquet",
            ".f-0_20240101000000000.log.1_0-1-0",
            ".f-0_20240101000000000.log.12_0-1-0.cdc",
            ".f-0_20240101000000000.log.1",
            ".hoodie_partition_metadata",
            ".hoodie_partition_metadata.parquet",
            "files-0000-0_0-1-0_00000000000000010.hfile",
        ]
    ),
)


@given(NAMES)
def test_names_are_taken_apart_as_the_model_does(name: str) -> None:
    log = parse_log_file_name(name)
    assert split_log_name(name) == (None if log is None else (log.file_id, log.sort_key)) or not name.startswith(".")
    base = parse_base_file_name(name)
    found = split_base_name(name)
    if base is not None:
        assert found == (base.file_id, base.instant, base.extension)
    elif found is not None:
        # as a base file's, with another extension
        assert parse_base_file_name(name[: len(name) - len(found[2])] + "parquet") is not None
    if log is not None or base is not None:
        assert is_data_file(name)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("mor", [False, True])
def test_slices_are_those_of_the_view(version: int, mor: bool) -> None:
    table = HandMadeTable(version, mor=mor, cdc=not mor)
    groups = [("a", "f1"), ("a", "f2"), ("b", "f3")]
    table.insert(*groups)
    for number in range(3):
        table.update(*groups[number:])
        pending = table.begin()
        table.update_stats(pending, groups[0])  # fails, and leaves its files
        table.base(pending, "a", "f9")
        if mor:
            time = table.schedule_compaction(groups[1])
            table.update(*groups)
            if number < 2:
                table.finish_compaction(time, groups[1])
    if mor:
        time = table.begin()
        table.finish(time, table.write_action, [table.log(time, "b", "log-only", time)])
    timeline = table.timeline
    view = load_view(TableState(table.storage, table.config, timeline))
    slicer = Slicer(view)
    for partition in view.partitions():
        names = [info.name for info in view.lister.files(partition)]
        found = {
            file_id: [
                (piece.base_instant, [name for name in piece.names if not name.endswith(".cdc")]) for piece in slices
            ]
            for file_id, slices in slicer.groups(partition, names).items()
        }
        expected = {}
        for file_id in {file_id for _, file_id in groups} | {"f9", "log-only"}:
            slices = view.slices_of(partition, file_id)  # type: ignore[arg-type]
            if slices:
                expected[file_id] = [
                    (
                        piece.base_instant,
                        ([str(piece.base_file.name)] if piece.base_file else [])
                        + [str(log.name) for log in piece.log_files],
                    )
                    for piece in slices
                ]
        assert found == expected
        assert found
    if not mor:
        with_changes = slicer.groups("a", [info.name for info in view.lister.files(view.partitions()[0])])
        assert [name.endswith(".cdc") for name in with_changes["f1"][0].names] == [False, True]
