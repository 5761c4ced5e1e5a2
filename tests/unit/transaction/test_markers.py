"""Markers, as Java names and reads them."""

from __future__ import annotations

import pytest

from hudi_py.errors import CorruptFileError
from hudi_py.model.instant import InstantTime
from hudi_py.model.layout import marker_folder
from hudi_py.transaction.markers import Marker, MarkerType, marker_path, read_markers, remove_markers
from hudi_py.transaction.owner.identity import end_work
from tests.support.hand_writes import SETTINGS, begin, commit, data_files, leftovers, new_table, write_base
from tests.support.sessions import changed

T = InstantTime("20260101000000000")


def test_names():
    assert marker_path(T, "p=1/f_0-1-2_3.parquet", MarkerType.MERGE) == (
        ".hoodie/.temp/20260101000000000/p=1/f_0-1-2_3.parquet.marker.MERGE"
    )
    assert marker_path(T, ".f_3.log.1_0-1-2", MarkerType.APPEND).endswith("/.f_3.log.1_0-1-2.marker.APPEND")


def test_direct_markers_are_read_back(storage):
    assert read_markers(storage, T) is None
    for path, kind in (("a=1/x.parquet", MarkerType.CREATE), (".y.log.1_0-0-0", MarkerType.APPEND)):
        storage.touch(marker_path(T, path, kind))
    assert read_markers(storage, T) == (
        Marker(".y.log.1_0-0-0", MarkerType.APPEND),
        Marker("a=1/x.parquet", MarkerType.CREATE),
    )
    remove_markers(storage, T)
    assert read_markers(storage, T) is None


def test_markers_of_the_timeline_server(storage):
    folder = f".hoodie/.temp/{T}"
    storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED\n")
    storage.put(f"{folder}/MARKERS0", b"a=1/x.parquet.marker.CREATE\na=2/y.parquet.marker.MERGE\n")
    storage.put(f"{folder}/MARKERS19", b"a=1/.z_1.log.1_0-0-0.marker.APPEND")
    assert read_markers(storage, T) == (
        Marker("a=1/.z_1.log.1_0-0-0", MarkerType.APPEND),
        Marker("a=1/x.parquet", MarkerType.CREATE),
        Marker("a=2/y.parquet", MarkerType.MERGE),
    )


def test_what_is_no_marker_is_refused(storage):
    storage.put(f".hoodie/.temp/{T}/stray", b"")
    with pytest.raises(CorruptFileError, match="stray"):
        read_markers(storage, T)


@pytest.mark.parametrize("value", ["a\nb", "a\n", "\na", "a\rb", "a\u2028b", "a\u0085", " a ", "a\x1fb"])
def test_partition_values_of_any_characters(storage, value):
    expected = (Marker(f"{value}/x.parquet", MarkerType.CREATE), Marker("b/y.parquet", MarkerType.MERGE))
    for marker in expected:
        storage.touch(marker_path(T, marker.path, marker.type))
    assert set(read_markers(storage, T)) == set(expected)
    remove_markers(storage, T)
    folder = f".hoodie/.temp/{T}"
    storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED\n")
    lines = "".join(f"{marker.path}.marker.{marker.type.value}\n" for marker in reversed(expected))
    storage.put(f"{folder}/MARKERS0", lines.encode())
    assert set(read_markers(storage, T)) == set(expected)


def test_where_markers_cannot_be_read_the_error_names_the_option_that_helps(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        first = write_base(tx, "a\nb", "f")
        commit(tx, [first])
    failed = begin(storage, config)
    write_base(failed, "a\nb", "g")
    failed._heartbeat.stop()
    end_work(failed.handle.writer.id)
    storage.put(f"{marker_folder(failed.instant)}/stray", b"")
    with pytest.raises(CorruptFileError, match=r"stray.*hoodie\.rollback\.using\.markers=false"):
        begin(storage, config)
    with begin(storage, config, settings=changed(SETTINGS, ROLLBACK_BY_MARKERS="false")) as tx:
        assert data_files(storage) == {first.path}
        commit(tx, [])
    assert leftovers(storage) == set()
