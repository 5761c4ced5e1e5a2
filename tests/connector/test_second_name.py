"""`enable(spark, name=...)`, and what is said of a format that Spark does not find. Without a JVM: doubles of PySpark's
classes note what they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from hudi_py.errors import ConfigError
from pyspark_hudi import disable, hooks

_MISSING = "org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: hudi."


class Reader:
    missing: Exception = AnalysisException("Failed to find the source: hudi", errorClass="DATA_SOURCE_NOT_FOUND")

    def __init__(self, formats: set[str]) -> None:
        self.formats, self.source = formats, ""

    def format(self, source: str) -> Reader:
        self.source = source
        return self

    def options(self, **_: Any) -> Reader:
        return self

    def option(self, key: str, value: Any) -> Reader:
        return self

    def load(self, path: str | None = None) -> str:
        if self.source not in self.formats:
            raise self.missing
        return f"plain {self.source} {path}"


class Writer(Reader):
    def mode(self, mode: str | None) -> Writer:
        return self

    def save(self, path: str | None = None) -> None:
        self.load(path)


class Frame:
    def __init__(self, session: Session) -> None:
        self.sparkSession = session

    @property
    def write(self) -> Writer:
        return Writer(self.sparkSession.formats)

    writeStream = write  # noqa: N815

    def writeTo(self, table: str) -> None: ...


class Settings:
    getAll: dict[str, str] = {}  # noqa: N815, RUF012


class Session:
    """A session that knows some formats."""

    conf = Settings()

    def __init__(self) -> None:
        self.formats = {"hudi-py", "parquet"}

    @property
    def read(self) -> Reader:
        return Reader(self.formats)

    catalog = read

    def table(self, name: str) -> None: ...

    def sql(self, text: str) -> None: ...

    def range(self, count: int) -> Frame:
        return Frame(self)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    found: Any = Session()
    monkeypatch.setattr(hooks, "check_session", lambda _: None)
    monkeypatch.setattr(hooks, "check_pandas", lambda: None)
    monkeypatch.setattr(hooks, "register_as", lambda spark, name: spark.formats.add(name))
    monkeypatch.setattr(hooks, "read_or", lambda _, path, options, plain: f"native {path}")
    monkeypatch.setattr(hooks, "is_classic", lambda _: True)
    yield found
    disable(found)


def test_a_second_name_goes_the_same_way(session: Any) -> None:
    hooks.enable(session, "Hudi")
    assert session.formats == {"hudi-py", "parquet", "Hudi"}
    for name in ("hudi-py", "hudi", "HUDI"):
        assert session.read.format(name).load("/t") == "native /t"
    assert session.read.format("parquet").load("/t") == "plain parquet /t"
    hooks.enable(session)  # keeps the name
    assert session.read.format("hudi").load("/t") == "native /t"
    disable(session)
    assert session.read.format("Hudi").load("/t") == "plain Hudi /t"
    hooks.enable(session)
    assert session.read.format("Hudi").load("/t") == "plain Hudi /t"


@pytest.mark.parametrize(
    "missing", [Reader.missing, OSError(f"An error of py4j: {_MISSING}\n\tat org.apache.spark.a.b")]
)
def test_the_format_of_the_jar_is_hinted_at(session: Any, monkeypatch: pytest.MonkeyPatch, missing: Exception) -> None:
    monkeypatch.setattr(Reader, "missing", missing)
    hooks.enable(session)
    said = r"Cannot find the format 'hudi': .* hudi-py's own is 'hudi-py'; pyspark_hudi\.enable\(spark, name='hudi'\)"
    for act in (session.read.format("hudi").load, session.range(0).write.format("hudi").save):
        with pytest.raises(ConfigError, match=said) as caught:
            act("/t")
        assert caught.value.__suppress_context__
    with pytest.raises(type(missing)):
        session.read.format("delta").load("/t")
    session.formats.add("hudi")  # the JAR
    assert session.read.format("hudi").load("/t") == "plain hudi /t"


def test_another_source_of_the_name_is_refused_before_anything_changes(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any, name: str) -> None:
        raise ConfigError(f"Cannot register the format as '{name}': Spark has another data source with this name")

    monkeypatch.setattr(hooks, "register_as", refuse)
    with pytest.raises(ConfigError, match="as 'hudi': Spark has another data source"):
        hooks.enable(session, "hudi")
    assert session.read.format("hudi-py").load("/t") == "plain hudi-py /t"
