"""Files of a write on a storage that cannot rename, as object stores cannot; and files that were not reported."""

from __future__ import annotations

import re

import pytest

from hudi_py.errors import CorruptFileError, RolledBackError
from hudi_py.model.layout import STAGING
from hudi_py.model.names import FileId, PartitionPath
from hudi_py.storage import MemoryStorage
from hudi_py.transaction.markers import read_markers
from hudi_py.transaction.owner.claim import claim, claimant, close_claim, revoke_claim
from hudi_py.transaction.publication import remove_unreported
from tests.support.hand_writes import (
    begin,
    commit,
    data_files,
    first_write,
    leftovers,
    new_table,
    snapshot,
    update,
    write_base,
)
from tests.support.sessions import recover


class Uploads(MemoryStorage):
    """Shows a file once it is closed, under the name it was opened with."""

    @property
    def can_rename(self) -> bool:
        return False

    def rename(self, src: str, dst: str) -> None:
        raise AssertionError(f"renames {src}")


@pytest.fixture
def uploads(request: pytest.FixtureRequest) -> Uploads:
    return Uploads(re.sub(r"\W+", "-", request.node.nodeid))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("mor", [False, True])
def test_nothing_is_renamed_where_it_cannot_be(uploads, version, mor):
    config = new_table(uploads, version, mor=mor)
    first_write(uploads, config)
    update(uploads, config)
    assert len(snapshot(uploads, config)) == 2
    assert leftovers(uploads) == set()


def test_an_upload_that_comes_late_is_given_up(uploads):
    config = new_table(uploads)
    with begin(uploads, config) as tx:
        permit = tx.publication.permit_base_file(PartitionPath("a"), FileId("late"), "1-1-0", merges=False)
        assert permit.temp_path == permit.path
        revoke_claim(uploads, tx.instant)  # as the commit does
        with pytest.raises(RolledBackError, match="takes no more files"), tx.publication.writing(permit) as sink:
            sink.write(b"late")
        assert data_files(uploads) == set()


def test_what_was_uploaded_too_late_is_removed_with_what_was_not_reported(uploads):
    config = new_table(uploads)
    with begin(uploads, config) as tx:
        kept = write_base(tx, "a", "kept")
        write_base(tx, "a", "lost", token="2-1-0")
        commit(tx, [kept])
    assert data_files(uploads) == {kept.path}


def test_a_commit_killed_while_it_removes_files_leaves_none_of_them(storage):
    """The markers of files that were not reported stay until these are gone, or a rollback would not find them."""
    config = new_table(storage)
    with begin(storage, config) as tx:
        kept, lost = write_base(tx, "a", "kept"), write_base(tx, "a", "lost", token="2-1-0")
        revoke_claim(storage, tx.instant)

        class KilledError(Exception):
            pass

        class Killing:
            """Dies at the first data file that is to be deleted."""

            def __getattr__(self, name: str):
                return getattr(storage, name)

            def delete(self, path: str) -> bool:
                if path == lost.path:
                    raise KilledError
                return storage.delete(path)

        with pytest.raises(KilledError):
            remove_unreported(Killing(), tx.instant, {kept.path})  # type: ignore[arg-type]
        markers = read_markers(storage, tx.instant)
        assert markers is not None
        assert {marker.path for marker in markers} == {kept.path, lost.path}
        tx._owns = False  # it is dead
    recover(storage)
    assert data_files(storage) == set()


def test_a_reported_file_of_another_size_is_named(storage):
    config = new_table(storage)
    with begin(storage, config) as tx:
        stat = write_base(tx, "a", "f")
        storage.put(stat.path, b"half")
        with pytest.raises(CorruptFileError, match=r"has 4 bytes, but \d+ were written") as caught:
            commit(tx, [stat])
        error = caught.value
        assert (error.path, error.instant, error.expected, error.found) == (stat.path, tx.instant, stat.file_size, 4)


def test_a_closed_claim_leaves_a_trace_until_the_write_is_forgotten(uploads):
    """Without folders nothing else would show the next write what a process that is killed then leaves behind."""
    config = new_table(uploads)
    with begin(uploads, config) as tx:
        stat = write_base(tx, "a", "f")
        close_claim(uploads, tx.instant)
        assert claimant(uploads, tx.instant) is None
        assert [info.name for info in uploads.list(STAGING)] == [tx.instant]
        with pytest.raises(RolledBackError, match="takes no more files"):
            write_base(tx, "a", "late")
        claim(uploads, tx.attempt)  # of an attempt that is made again
        commit(tx, [stat])
    assert leftovers(uploads) == set()
    assert data_files(uploads) == {stat.path}
