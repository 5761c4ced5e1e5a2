"""The page as text: whole, safe, small."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from time import perf_counter
from typing import Any

import pytest

from hudi_py.health import Finding
from hudi_py.report.methods import page
from tests.support.made_up import file, instant, report_of, written

ODD = "<script>alert(1)</script>\n\u202e\"'&</style>\x1b[31m"
SEEN = "&lt;script&gt;alert(1)&lt;/script&gt;\\n\\u202e&quot;&#x27;&amp;&lt;/style&gt;\\x1b[31m"
VOID = {"meta", "link", "input", "br"}


class Outline(HTMLParser):
    """Checks that elements nest, and gathers what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.found if name == tag]


def busy() -> str:
    instants = [instant(n * 5, "deltacommit", 7) for n in range(50)] + [instant(400, "clean", None)]
    history = [written(n * 5, "deltacommit", "UPSERT", (1, 2, 3), 9) for n in range(50)]
    files = [file(n, f"city{n}", n * 1_000_000, n % 30, n) for n in range(1, 60)]
    findings = tuple(Finding("files.long_slice", f"slice {n}", partition="p", paths=("a",)) for n in range(30))
    return page(report_of(instants, history, files, findings=findings, unknown=("who holds the lock: no answer",)))


def test_odd_texts_stay_texts() -> None:
    odd = report_of(
        [{**instant(0, "commit"), "instant": ODD, "action": ODD}],
        [{**written(0, "commit", ODD, (1, 1, 1), 1), "action": ODD}],
        [{**file(1, ODD, 10, 2, 10), "file_id": ODD, "base_instant": ODD}],
        properties={"hoodie.table.name": ODD, "hoodie.table.recordkey.fields": ODD, ODD: ODD},
        findings=(Finding("files.small", ODD, instant=ODD, partition=ODD, paths=(ODD,)),),
        unknown=(ODD,),
        columns=(ODD,),
    )
    text = page(odd)
    assert text.count("<script") == text.count("</script>") == 4, "of charts and of the page itself"
    assert text.count("</style>") == 1
    for bad in ("\u202e", "\x1b", "alert(1)<", "<script>alert"):
        assert bad not in text
    assert text.count(SEEN) > 10
    text.encode("utf-8")
    Outline(text)


@pytest.mark.parametrize("make", [busy, lambda: page(report_of())], ids=["busy", "empty"])
def test_the_page_requests_nothing(make: Any) -> None:
    text = make()
    outline = Outline(text)
    for name in ("src", "href", "action", "srcset", "data", "poster"):
        values = [attributes[name] for _, attributes in outline.found if attributes.get(name)]
        assert all(value.startswith(("#", "data:")) for value in values), values
    assert not re.findall(r"url\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(", text)
    assert not re.findall(r"\bhttps?://(?!www\.w3\.org/2000/svg)", text)
    assert not [attributes for _, attributes in outline.found if any(name.startswith("on") for name in attributes)]
    (policy,) = [each["content"] for each in outline.all("meta") if each.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_the_page_can_be_heard() -> None:
    outline = Outline(busy())
    assert [len(outline.all(name)) for name in ("h1", "main", "nav", "header", "footer")] == [1] * 5
    assert outline.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in outline.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {each["href"][1:] for each in outline.all("a")}
    assert targets <= set(ids)
    assert {each["aria-labelledby"] for each in outline.all("section")} <= set(ids)
    assert len(outline.all("caption")) == len(outline.all("table")) > 8
    assert all(each.get("scope") for each in outline.all("th"))
    assert all(each.get("aria-hidden") == "true" for each in outline.all("svg")), "what they say stands in words"
    sliders = [each for each in outline.all("input") if each["type"] == "range"]
    assert len(sliders) == 3
    assert all(each["aria-label"] for each in sliders)


@pytest.mark.slow
def test_a_large_table_makes_a_small_page() -> None:
    instants = [instant(n * 60, "deltacommit", 30) for n in range(10_000)]
    history = [written(n * 60, "deltacommit", "UPSERT", (1, 2, 3), 9) for n in range(10_000)]
    files = [file(n, f"day={n % 3_000}", n * 1_000, n % 5, n) for n in range(1, 100_001)]
    findings = tuple(Finding("files.long_slice", f"slice {n}", partition=f"{n}", paths=("a",)) for n in range(5_000))
    report = report_of(instants, history, files, findings=findings, columns=[f"column{n}" for n in range(2_000)])
    started = perf_counter()
    text = page(report)
    assert perf_counter() - started < 10
    assert len(text.encode()) < 400_000
    for said in ("10,000 instants", "100,000 file groups", "and 2,975 more partitions", "4,999 more like this"):
        assert said in text
    assert re.search(r"And 9,960 older instants", text)


def test_an_empty_table() -> None:
    text = page(report_of())
    for said in ("There are no instants.", "There are no data files.", "No write is on the active timeline."):
        assert said in text


def test_what_to_do_next_comes_first() -> None:
    harm = Finding("properties.key", "a key is wrong")
    report = report_of([instant(0, "deltacommit", None)], findings=(harm,))
    assert [(step.command.split()[1], step.pressing) for step in report.next] == [
        ("repair", True),
        ("rollback", False),
        ("compact", False),
    ]
    text = page(report)
    assert text.index("What to do next</h2>") < text.index("At a glance</h2>") < text.index("Timeline</h2>")
