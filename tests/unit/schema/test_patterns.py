"""Patterns of users: as Hadoop and Java have them, in linear time."""

from __future__ import annotations

import pytest

from hudi_py.errors import ConfigError
from hudi_py.schema.patterns import check_regex, escaped, glob_regex, matching, matching_paths


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*/2024/*", "t/2024/a", True),
        ("*/2024/*", "t/2025/a", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("{a,b{c,d}}x", "bdx", True),
        ("{a,b{c,d}}x", "bx", False),
        ("{,x}y", "y", True),
        ("[a-c]1", "b1", True),
        ("[^a-c]1", "b1", False),
        ("[!a-c]1", "d1", True),
        ("[*]", "*", True),
        ("[*]", "a", False),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a.b+(c)|$", "a.b+(c)|$", True),
        ("a.b", "axb", False),
        ("a,b}", "a,b}", True),
        ("a*", "a\nb", True),
        ("ü?", "üñ", True),
    ],
)
def test_globs(pattern: str, text: str, matches: bool) -> None:
    assert matching(glob_regex(pattern, "k"), [text], "k", whole=True) == [text] * matches


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a/*", "a/b", "a/b/c"),
        ("2026/?[1-3]", "2026/02", "2026/04"),
        ("[^a]x", "bx", "ax"),
        ("{a,b}/c", "b/c", "c/c"),
        ("a.b", "a.b", "axb"),
    ],
)
def test_globs_of_paths_do_not_span_folders(pattern: str, yes: str, no: str) -> None:
    assert matching_paths(pattern, [no, yes], "k") == [yes]


def test_escaped_texts_match_as_they_are() -> None:
    text = "a.b*(ü)_\n😀-\\"
    assert matching(escaped(text), [text, "aXb"], "k", whole=True) == [text]


@pytest.mark.parametrize("pattern", ["{a", "a{b,{c}", "[a", "[]", "a\\"])
def test_what_is_no_glob(pattern: str) -> None:
    with pytest.raises(ConfigError, match="Option some.key = .* is not valid: .*; expected a glob such as"):
        glob_regex(pattern, "some.key")


@pytest.mark.parametrize("regex", ["(", "a)", "[a", r"(a)\1", "(?=a)", "(?<!a)b"])
def test_what_is_no_regular_expression(regex: str) -> None:
    with pytest.raises(ConfigError, match="Option some.key = .* is not valid: .*without back-references"):
        check_regex(regex, "some.key")


def test_regular_expressions_match_within_or_as_a_whole() -> None:
    paths = ["a/1", "b/1", "ab"]
    assert matching("[ab]", paths, "k") == paths
    assert matching("a|b", ["a", "b", "ab"], "k", whole=True) == ["a", "b"]
    assert matching(r"\d$", paths, "k") == ["a/1", "b/1"]


def test_the_base_folder_has_no_name() -> None:
    assert matching_paths("*", ["", "a", "a/b"], "k") == ["a"]
    assert matching_paths("", ["", "a"], "k") == [""]


@pytest.mark.timeout(20)
def test_time_is_linear() -> None:
    nested = "{a,aa}" * 60 + "{" * 200 + "x,y" + "}" * 200 + "*a" * 60
    assert matching(glob_regex(nested, "k"), ["a" * 5000], "k", whole=True) == []
    assert matching("(a+)+(b|c)", ["a" * 5000], "k", whole=True) == []
    assert matching("(a|a)*$", ["a" * 5000 + "!"], "k", whole=True) == []
