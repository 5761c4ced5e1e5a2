"""Errors say what they are about in fields, and travel between processes with them."""

from __future__ import annotations

import pickle

import pytest

from hudi_py import errors
from hudi_py.errors import ConflictError, HudiError, Remedy

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HudiError)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_fields_travel_with_an_error(kind):
    error = kind("Cannot read a/b: half a file", path="a/b", instant="20260101000000000", expected=4, found=2)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error) == "Cannot read a/b: half a file"
    assert back.fields == {"path": "a/b", "instant": "20260101000000000", "expected": 4, "found": 2}
    assert (back.path, back.key) == ("a/b", None)


def test_there_are_no_other_fields():
    with pytest.raises(TypeError, match="secret"):
        HudiError("Cannot x", secret="y")
    assert HudiError("Cannot x").fields == {}


def test_remedies_are_in_the_terms_of_an_interface():
    remedy = Remedy("set with_newer=True", cli="give --with-newer", sql="use with_newer => true")
    error = ConflictError(f"Cannot roll back 1: 2 is newer; or {remedy}", instant="2", remedies=(remedy,))
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == back.worded("python") == "Cannot roll back 1: 2 is newer; or set with_newer=True"
    assert back.worded("cli") == "Cannot roll back 1: 2 is newer; or give --with-newer"
    assert back.worded("sql") == "Cannot roll back 1: 2 is newer; or use with_newer => true"
    assert back.fields == {"instant": "2"}


def test_a_remedy_may_be_the_same_everywhere():
    assert Remedy("wait").worded("sql") == Remedy("wait").worded("cli") == "wait"
