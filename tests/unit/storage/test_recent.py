"""Values that a process keeps of what it has read."""

from __future__ import annotations

from hudi_py.storage.recent import Recent


def test_the_least_recently_used_go_first():
    recent: Recent[str, int] = Recent(100)
    for number in range(10):
        recent.put(f"k{number}", number, 10)
    assert recent.get("k0") == 0  # used again
    recent.put("more", 11, 10)
    assert recent.get("k1") is None
    assert recent.get("k0") == 0
    assert recent.get("more") == 11
    assert recent.num_bytes == 100


def test_a_large_value_is_not_kept():
    recent: Recent[str, int] = Recent(80)
    recent.put("large", 1, 11)
    assert recent.get("large") is None
    assert recent.num_bytes == 0
    whole: Recent[str, int] = Recent(80, 80)
    whole.put("large", 1, 80)
    assert whole.get("large") == 1


def test_a_value_that_is_put_again_counts_once_and_can_be_taken_once():
    recent: Recent[str, int] = Recent(80)
    recent.put("k", 1, 10)
    recent.put("k", 2, 5)
    assert recent.num_bytes == 5
    assert recent.take("k") == 2
    assert recent.take("k") is None
    assert recent.num_bytes == 0
