from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_py.errors import ConfigError
from hudi_py.model.properties import TableConfig
from hudi_py.model.zones import local_zone
from hudi_py.timeline.times import add_ms, epoch_ms, format_instant, parse_instant, table_zone

TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20260102030405678", "20260102030405678"),
        ("20260102030405", "20260102030405"),
        (20260102030405678, "20260102030405678"),
        ("2026-01-02", "20260102000000000"),
        ("2026-01-02 03:04:05", "20260102030405000"),
        ("2026-01-02 03:04:05.678", "20260102030405678"),
        ("2026-01-02 03:04", "20260102030400000"),
        (" 2026-01-02T03:04:05.6789 ", "20260102030405678"),
        ("2026-01-02T03:04:05.6", "20260102030405600"),
        ("2026-01-02T03:04:05Z", "20260102120405000"),
        ("2026-01-02T03:04:05.5+01:00", "20260102110405500"),
        ("2026-01-02 03:04:05-0130", "20260102133405000"),
        ("00000000000000", "00000000000000"),
        (date(2026, 1, 2), "20260102000000000"),
        (datetime(2026, 1, 2, 3, 4, 5, 678_999), "20260102030405678"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "20260102120405000"),
    ],
)
def test_forms(value: str | int | date, expected: str) -> None:
    assert parse_instant(value, TOKYO) == expected


@pytest.mark.parametrize(
    "value",
    ["", "yesterday", "2026", "2026-13-01", "20261301000000000", "2026-01-02 25:00:00", "202601020304056", "2026/01/02",
     "2026-01-02T03:04:05+99:00", True, None, 3.5, "２０２６-01-02"],
)  # fmt: skip
def test_other_forms_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="yyyyMMddHHmmssSSS, yyyyMMddHHmmss, yyyy-MM-dd"):
        parse_instant(value, timezone.utc)  # type: ignore[arg-type]


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin"]))
def test_there_and_back(moment: int, name: str) -> None:
    zone = ZoneInfo(name)
    text = format_instant(moment, zone)
    assert len(text) == 17
    assert moment in {epoch_ms(text, zone, fold) for fold in (0, 1)}


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 100_000_000))
def test_adding_is_wall_clock_time(moment: int, millis: int) -> None:
    assert add_ms(format_instant(moment, timezone.utc), millis) == format_instant(moment + millis, timezone.utc)


def test_times_of_14_digits_count_to_the_end_of_their_second() -> None:
    assert epoch_ms("19700101000000", timezone.utc) == 999
    assert add_ms("19700101000000", 1) == "19700101000001000"


def test_zone_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert table_zone(TableConfig({"hoodie.table.timeline.timezone": "UTC"})) is timezone.utc
    assert table_zone(TableConfig({})) == TOKYO
    assert table_zone(TableConfig({}), ZoneInfo("Europe/Berlin")) == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("name", ["<+03>-3", ":Europe/Berlin", "UTC", "", "/usr/share/zoneinfo/Asia/Tokyo"])
def test_any_local_zone_has_an_offset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", name)
    assert isinstance(local_zone().utcoffset(datetime(2026, 1, 1)), timedelta)
