from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from hudi_py.config import Option, Options, Scope
from hudi_py.config import concurrency as concurrency_config
from hudi_py.config import read as read_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.config.docs import options_page
from hudi_py.config.options import ALL, HONOURED
from hudi_py.errors import ConfigError
from hudi_py.write.api import TableArguments, write_options


def resolve(given: dict[str, object], scope: Scope = Scope.WRITE) -> Options:
    return Options.resolve(given, scope, defaults={})


def test_defaults_are_those_of_apache_hudi() -> None:
    options = resolve({})
    assert options.get(write_config.OPERATION) == "upsert"
    assert options.get(table_config.TABLE_TYPE) == "COPY_ON_WRITE"
    assert options.get(table_config.TABLE_VERSION) == 9
    assert options.get(write_config.INDEX_TYPE) == "SIMPLE"
    assert options.get(write_config.SMALL_FILE_LIMIT) == 104857600
    assert options.get(write_config.MAX_FILE_SIZE) == 125829120
    assert options.get(write_config.COMPRESSION_CODEC) == "zstd"
    assert options.get(table_config.RECORD_KEY) == ()
    assert options.get(concurrency_config.HEARTBEAT_INTERVAL_MS) == 60000
    assert not options.given(write_config.OPERATION)


def test_keys_are_taken_in_any_case_and_by_alias() -> None:
    options = resolve(
        {"HOODIE.datasource.WRITE.precombine.field": "ts", "hoodie.datasource.write.recordkey.field": "a, b"}
    )
    assert options.get(table_config.ORDERING) == ("ts",)
    assert options.get(table_config.RECORD_KEY) == ("a", "b")
    assert options.name_of(table_config.ORDERING) == "HOODIE.datasource.WRITE.precombine.field"


def test_python_values_become_text_and_none_is_not_given() -> None:
    options = resolve(
        {
            "hoodie.combine.before.insert": True,
            "hoodie.parquet.small.file.limit": 0,
            "hoodie.table.recordkey.fields": ["a", "b"],
            "hoodie.table.name": None,
        }
    )
    assert options.get(write_config.COMBINE_BEFORE_INSERT) is True
    assert options.get(write_config.SMALL_FILE_LIMIT) == 0
    assert options.get(table_config.RECORD_KEY) == ("a", "b")
    assert not options.given(table_config.TABLE_NAME)
    with pytest.raises(ConfigError, match=r"hoodie\.table\.name has a value of type dict"):
        resolve({"hoodie.table.name": {}})


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean hoodie\.datasource\.write\.recordkey\.field "):
        resolve({"hoodie.datasource.write.recordkey.fields": "id"})
    # No family of harmless keys may hide them
    with pytest.raises(ConfigError, match=r"did you mean hoodie\.archive\.automatic\?"):
        resolve({"hoodie.archive.automtic": "false"})
    with pytest.raises(ConfigError, match=r"did you mean hoodie\.timeline\.compaction\.batch\.size\?"):
        resolve({"hoodie.timeline.compaction.batch.sizes": 5})
    for scope in (Scope.READ, Scope.WRITE):
        with pytest.raises(ConfigError, match=r"did you mean hoodie\.metadata\.enable\?"):
            resolve({"hoodie.metadata.enabel": "false"}, scope)
        resolve({"hoodie.metadata.index.column.stats.inMemory.projection.threshold": 5}, scope)
    with pytest.raises(ConfigError, match="did you mean columns"):
        resolve({"column": "id"}, Scope.READ)
    with pytest.raises(ConfigError, match=r"Unknown option timestampAsOf, which is Delta Lake's: use as\.of\.instant$"):
        Options.resolve({"timestampAsOf": "2026-01-31"}, Scope.READ)
    with pytest.raises(ConfigError, match="Unknown option mergeSchema"):
        resolve({"mergeSchema": "true"}, Scope.READ)
    with pytest.raises(ConfigError, match=r"given as storage\.<name>"):
        resolve({"fs.s3a.access.key": "x"}, Scope.READ)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.datasource.hive_sync.mode", "jdbc"),
        ("hoodie.datasource.hive_sync.use_jdbc", "true"),
        ("hoodie.meta.sync.client.tool.class", "org.apache.hudi.sync.datahub.DataHubSyncTool"),
        ("hoodie.metrics.reporter.type", "graphite"),
        ("hoodie.clustering.async.enabled", "true"),
        ("hoodie.clustering.async.enabled", "TRUE"),
        ("hoodie.datasource.clustering.async.enable", "true"),
        ("hoodie.index.type", "INMEMORY"),
        ("hoodie.datasource.write.keygenerator.type", "GLOBAL_DELETE"),
        ("hoodie.datasource.write.payload.class", "org.apache.hudi.common.model.ExpressionPayload"),
        ("hoodie.datasource.write.payload.class", "com.example.Mine"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.logfile.data.block.format", "hfile"),
        ("hoodie.allow.operation.metadata.field", "true"),
        ("hoodie.write.lock.provider", "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"),
        ("hoodie.assume.date.partitioning", "true"),
    ],
)
def test_what_is_not_built_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({key: value})
    first = str(caught.value).splitlines()[0]
    assert key in first
    assert value in first


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.datasource.hive_sync.jdbcurl", "jdbc:hive2://h:1"),
        ("hoodie.clustering.async.enabled", "false"),
        ("hoodie.clustering.max.parallelism", "3"),
        ("hoodie.clean.async", "true"),
        ("hoodie.upsert.shuffle.parallelism", "2"),
        ("hoodie.metrics.graphite.host", "h"),
        ("hoodie.assume.date.partitioning", "false"),  # until 0.15
        ("hoodie.optimized.log.blocks.scan.enable", "true"),
    ],
)
def test_what_changes_nothing_is_accepted(key: str, value: str) -> None:
    assert resolve({key: value}).values == {}


def test_scope_decides_what_is_checked() -> None:
    assert resolve({"hoodie.clustering.async.enabled": "true"}, Scope.READ).values == {}
    with pytest.raises(ConfigError, match="snapshot"):
        resolve({"hoodie.datasource.query.type": "newest"}, Scope.READ)
    assert resolve({"hoodie.datasource.query.type": "newest"}, Scope.WRITE).scope is Scope.WRITE
    options = resolve({"hoodie.datasource.view.type": "READ_OPTIMIZED"}, Scope.READ)
    assert options.get(read_config.QUERY_TYPE) == "read_optimized"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("hoodie.combine.before.insert", "yes", "true or false"),
        ("hoodie.parquet.small.file.limit", "-1", "at least 0"),
        ("hoodie.parquet.small.file.limit", "100MB", "whole number of bytes"),
        ("hoodie.index.bloom.fpp", "2", "number from"),
        ("hoodie.index.type", "SIMPEL", "one of SIMPLE, GLOBAL_SIMPLE"),
        ("hoodie.write.table.version", "7", "one of 6, 8, 9"),
    ],
)
def test_values_are_checked_by_type(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        resolve({key: value})
    assert f"{key} = '{value}'" in str(caught.value)


def test_one_option_under_two_keys_must_agree() -> None:
    same = resolve({"hoodie.table.precombine.field": "ts", "hoodie.table.ordering.fields": "ts"})
    assert same.get(table_config.ORDERING) == ("ts",)
    with pytest.raises(ConfigError, match="are the same option with different values"):
        resolve({"hoodie.table.precombine.field": "ts", "hoodie.table.ordering.fields": "n"})


def test_storage_options_are_split_off_and_never_shown() -> None:
    options = resolve({"storage.aws_secret_access_key": "hunter2", "path": "/t"}, Scope.READ)
    assert resolve({"Storage.Secret.aws_secret_access_key": "hunter2"}, Scope.READ).storage == options.storage
    assert options.storage == {"aws_secret_access_key": "hunter2"}
    assert "hunter2" not in repr(options)


def test_commit_metadata_by_prefix() -> None:
    assert resolve({"_job": "nightly"}).commit_metadata == {"_job": "nightly"}
    options = resolve({"meta.Job": "nightly", "hoodie.datasource.write.commitmeta.key.prefix": "meta."})
    assert options.commit_metadata == {"meta.Job": "nightly"}


def test_options_pickle() -> None:
    options = resolve({"hoodie.datasource.write.operation": "insert", "storage.k": "v"})
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert again.get(write_config.OPERATION) == "insert"


def test_defaults_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more.conf").write_text("hoodie.parquet.small.file.limit=7\n")
    (tmp_path / "hudi-defaults.conf").write_text(
        "# a comment\n\n"
        "hoodie.datasource.write.operation   insert\n"
        "hoodie.combine.before.insert = true\n"
        "hoodie.table.name\tfrom_file\n"
        "include=more.conf\n"
        "spark.master local\n"
    )
    monkeypatch.setenv("HUDI_CONF_DIR", str(tmp_path))
    options = Options.resolve({"hoodie.datasource.write.operation": "upsert"}, Scope.WRITE)
    assert options.get(write_config.OPERATION) == "upsert"
    assert options.get(write_config.COMBINE_BEFORE_INSERT) is True
    assert options.get(table_config.TABLE_NAME) == "from_file"
    assert options.get(write_config.SMALL_FILE_LIMIT) == 7
    monkeypatch.setenv("HUDI_CONF_DIR", f"file://{tmp_path}")
    assert Options.resolve({}).get(write_config.OPERATION) == "insert"


def test_an_alias_in_the_call_overrides_the_key_in_the_file() -> None:
    options = Options.resolve({"hoodie.table.precombine.field": "a"}, defaults={"hoodie.table.ordering.fields": "b"})
    assert options.get(table_config.ORDERING) == ("a",)


def test_defaults_file_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_CONF_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="HUDI_CONF_DIR"):
        Options.resolve({})
    file = tmp_path / "hudi-defaults.conf"
    file.write_text("include=hudi-defaults.conf\n")
    with pytest.raises(ConfigError, match="includes itself"):
        Options.resolve({})
    file.write_text("hoodie.parquet.smal.file.limit 7\n")
    with pytest.raises(ConfigError, match=r"hoodie\.parquet\.small\.file\.limit.*hudi-defaults"):
        Options.resolve({})


def test_an_option_without_effect_on_files_that_would_look_otherwise_is_told(caplog: pytest.LogCaptureFixture) -> None:
    Options.resolve({"hoodie.logfile.max.size": 1073741824, "hoodie.write.ignore.failed": False}, defaults={})
    Options.resolve({"hoodie.insert.shuffle.parallelism": 7}, defaults={})
    assert not caplog.records
    Options.resolve({"hoodie.logfile.max.size": 1000}, defaults={})
    assert "option hoodie.logfile.max.size = '1000' has no effect: A write appends one log file" in caplog.text
    caplog.clear()
    Options.resolve({"hoodie.logfile.max.size": 1000}, Scope.READ, defaults={})
    assert not caplog.records
    Options.resolve({"hoodie.parquet.outputtimestamptype": "TIMESTAMP_MICROS"}, defaults={})
    assert not caplog.records
    Options.resolve({"hoodie.parquet.outputtimestamptype": "INT96"}, defaults={})
    Options.resolve({"hoodie.parquet.writelegacyformat.enabled": True}, defaults={})
    assert "option hoodie.parquet.outputtimestamptype = 'INT96' has no effect: Timestamps" in caplog.text
    assert "option hoodie.parquet.writelegacyformat.enabled = 'true' has no effect: Lists have" in caplog.text


def test_classes_of_others_than_apache_hudi_are_refused() -> None:
    key = "hoodie.write.merge.handle.class"
    Options.resolve({key: "org.apache.hudi.io.HoodieWriteMergeHandle"}, defaults={})
    with pytest.raises(
        ConfigError, match=rf"Option {key} = 'com.example.Handle' is not supported: classes of the Java"
    ):
        Options.resolve({key: "com.example.Handle"}, defaults={})


def test_each_key_is_declared_once_with_a_meaning_and_a_valid_default() -> None:
    keys = [key.lower() for option in ALL for key in option.keys]
    assert len(keys) == len(set(keys))
    for option in ALL:
        assert option.help or option.why, option.key
        assert option.since, option.key
    for option in HONOURED:
        assert not option.choices or option.default is None or str(option.default) in option.choices, option.key


# The first is read by `Options` itself; all values of the second mean the same.
WITHOUT_A_CHOICE = {"COMMIT_METADATA_PREFIX", "EARLY_STRATEGY"}


def test_what_is_honoured_is_looked_at() -> None:
    root = Path(__file__).parents[3]
    sources = [*root.glob("python/hudi_py/**/*.py"), *root.glob("connector/**/*.py")]
    words = {
        word for file in sources if file.parent.name != "config" for word in re.findall(r"\w+", file.read_text("utf-8"))
    }
    modules = (read_config, write_config, table_config, concurrency_config)
    listed = {name for module in modules for name, value in vars(module).items() if isinstance(value, Option)}
    dates = {name for name, value in vars(table_config).items() if value in table_config.DATE_OPTIONS}
    assert (listed - dates | {"DATE_OPTIONS"}) - words == WITHOUT_A_CHOICE


def test_the_page_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "options.md"
    assert page.read_text("utf-8") == options_page(), "run: python -m hudi_py.config.docs > docs/options.md"


def test_the_page_has_every_option() -> None:
    page = options_page()
    headed = [option.key for option in HONOURED if f"\n### `{option.key}`\n" in page]
    listed = [option.key for option in ALL if f"\n| `{option.key}`" in page]
    assert sorted(headed + listed) == sorted(option.key for option in ALL if not option.internal)
    assert [
        line for line in page.splitlines() if line.startswith(("| `", "- ")) and "`(" in line
    ] == []  # a tuple of Python


def test_examples_are_valid_and_not_the_default() -> None:
    for option in HONOURED:
        if option.internal or option.key == "hoodie.py.read.pin":  # comes from a column of the view `plan`
            continue
        assert option.shown, f"{option.key} needs an example"
        assert len(option.choices) == 1 or option.read(option.shown) != option.default, option.key


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("record_key", "hoodie.datasource.write.recordkey.field (record_key= of hudi_py.write)"),
        ("hoodie.datasource.write.recordkey.fields", "recordkey.field (record_key= of hudi_py.write)"),
        (
            "hoodie.datasource.read.begin.instant.time",
            "hoodie.datasource.read.begin.instanttime (begin= of Table.scan)",
        ),
        ("hoodie.parquet.small.file.limits", "hoodie.parquet.small.file.limit?"),
    ],
)
def test_an_unknown_key_names_the_argument_in_python(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(meant)):
        resolve({key: "x"})


def test_an_unknown_choice_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="expected one of .*; did you mean upsert?"):
        resolve({"hoodie.datasource.write.operation": "upsrt"})


def test_all_that_is_wrong_is_reported_at_once() -> None:
    given = {
        "hoodie.datasource.write.operation": "upsrt",
        "hoodie.datasource.write.recordkey.fields": "id",
        "hoodie.errortable.enable": "true",
        "hoodie.parquet.small.file.limit": "many",
        "hoodie.table.name": {},
        "hoodie.combine.before.insert": "true",
    }
    with pytest.raises(ConfigError) as refused:
        resolve(given)
    message = str(refused.value)
    assert message.startswith("5 options are not valid: (1) Option hoodie.datasource.write.operation = 'upsrt'")
    assert all(key in message for key in list(given)[:5])
    assert "combine" not in message


def test_arguments_are_reported_with_options() -> None:
    with pytest.raises(ConfigError) as refused:
        write_options(
            {"hoodie.table.nam": "t", "hoodie.datasource.write.partitionpath.field": "p"},
            TableArguments(record_key=7.5, partition_by="q", table_type="cows", table_version=7),
        )
    message = str(refused.value)
    assert message.startswith("5 options are not valid: (1) Unknown option hoodie.table.nam: did you mean")
    assert "Argument record_key=7.5 is of type float" in message
    assert "Argument partition_by='q' contradicts option hoodie.datasource.write.partitionpath.field='p'" in message
    assert "table_type = 'cows' is not valid" in message
    assert "table_version = '7'" in message
