"""The checker of histories finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.history import Answer, Commit, History

FIRST = {1: "", 2: "", 3: ""}
A = Commit("a", "10", frozenset({1, 2}), asked_ns=0, answered_ns=30)
B = Commit("b", "20", frozenset({2, 3}), asked_ns=10, answered_ns=40)
C = Commit("c", "30", frozenset({1}), asked_ns=50, answered_ns=None)
AFTER_B = {1: "a", 2: "b", 3: "b"}
GOOD = (
    Answer("r", {1: "a", 2: "a", 3: ""}, 20, 35),
    Answer("r", AFTER_B, 41, 60),
    Answer("r", {**AFTER_B, 1: "c"}, 41, 60),
    Answer("r", {2: "b", 3: "b"}, 70, 80, since="10", until="20"),
    Answer("r", {**AFTER_B, 1: "c"}, 70, 80, since="", until="30"),
)


def test_what_is_serialisable_passes():
    History(FIRST, [C, A, B], GOOD, ["a", "b"]).check()


def test_commits_of_the_same_time_have_the_order_that_answers_show():
    tied = [C, replace(B, completed="10"), A]
    History(FIRST, tied, GOOD[:3]).check()
    with pytest.raises(AssertionError, match="cycle"):
        History(FIRST, tied, [*GOOD[:3], Answer("r", {1: "", 2: "b", 3: "b"}, 20, 35)]).check()


@pytest.mark.parametrize(
    ("commits", "answer", "confirmed", "message"),
    [
        ([A, B, C], None, ["a", "d"], "lost: 'd'"),
        ([A, B, C, replace(A, completed="40")], None, ["a"], "doubled: 'a' is committed 2 times"),
        ([A, B], None, ["a", "b", "a"], "doubled: 'a' was confirmed 2 times"),
        ([replace(C, completed="05"), A, B], None, [], "out of order: 'a' was confirmed before 'c' was asked for"),
        ([A, B, C], Answer("r", {1: "", 2: "b", 3: "b"}, 20, 60), [], "cycle: r saw 'b', and of key 1 '', which 'a'"),
        ([A, B, C], Answer("r", {1: "a", 2: "a", 3: "b"}, 20, 60), [], "cycle: r saw 'b', and of key 2 'a', which 'b'"),
        ([A, B, C], Answer("r", {1: "a", 2: "b"}, 20, 60), [], "cycle: r saw 'b', and of key 3 None"),
        ([A, B, C], Answer("r", {1: "a", 2: "a", 3: ""}, 41, 60), [], "outdated: r did not see 'b'"),
        ([A, B, C], Answer("r", {**AFTER_B, 1: "c"}, 20, 49), [], "saw 'c', which was asked for after its answer"),
        ([A, B, C], Answer("r", {**AFTER_B, 1: "x"}, 41, 60), [], "saw 'x', which is not committed"),
        ([A, B, C], Answer("r", {2: "a", 3: "b"}, 70, 80, since="10", until="20"), [], "of key 2 'a'; expected is 'b'"),
        ([A, B, C], Answer("r", {}, 70, 80, since="20", until="30"), [], "of key 1 None; expected is 'c'"),
    ],
)
def test_what_is_not_is_named(commits, answer, confirmed, message):
    with pytest.raises(AssertionError) as raised:
        History(FIRST, commits, [] if answer is None else [answer], confirmed).check()
    assert message in str(raised.value)
