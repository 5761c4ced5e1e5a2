"""Which partitions and file groups a strategy takes, and in which order."""

from __future__ import annotations

from datetime import date

import pytest

from hudi_py.config import DEFAULTS, Options
from hudi_py.config import compaction as config
from hudi_py.errors import ConfigError
from hudi_py.model.files import BaseFile, FileSlice, LogFile
from hudi_py.model.names import BaseFileName, FileId, LogFileName, PartitionPath
from hudi_py.services.compaction.plan import (
    choose_operations,
    choose_partitions,
    slice_metrics,
)
from hudi_py.timeline.plans import CompactionOperation

TODAY = date(2024, 3, 10)
MB = 1 << 20


def operation(partition: str, log_size: int = 0, *, io_mb: int = 0, logs: int = 1) -> CompactionOperation:
    metrics = {"TOTAL_LOG_FILES_SIZE": float(log_size), "TOTAL_IO_MB": float(io_mb)}
    return CompactionOperation(partition, f"{partition}-{log_size}", "1", None, ("l",) * logs, metrics)


SHORT = {
    "log_size": config.LOG_SIZE_THRESHOLD,
    "log_files": config.LOG_NUM_THRESHOLD,
    "target_io_mb": config.TARGET_IO_MB,
    "day_partitions": config.DAY_PARTITIONS,
    "partition_regex": config.PARTITION_REGEX,
}


def settings(*names: str, **changes: object) -> Options:
    package = "org.apache.hudi.table.action.compact.strategy."
    chain = ",".join(f"{package}{name}CompactionStrategy" for name in names)
    return DEFAULTS.replace({config.STRATEGY: chain, **{SHORT[name]: str(value) for name, value in changes.items()}})


def test_metrics_are_whole_megabytes_and_bytes_of_logs() -> None:
    base = BaseFile(PartitionPath("p"), BaseFileName(FileId("f"), "0-0-0", "1"), 3 * MB - 1)
    log = LogFile(PartitionPath("p"), LogFileName(FileId("f"), "2", 1, "0-0-0"), MB + 1)
    whole = FileSlice(PartitionPath("p"), FileId("f"), "1", base, (log, log))
    assert slice_metrics((whole,), 120 * MB) == {
        "TOTAL_IO_READ_MB": 5.0,
        "TOTAL_IO_WRITE_MB": 2.0,
        "TOTAL_IO_MB": 7.0,
        "TOTAL_LOG_FILES_SIZE": 2.0 * (MB + 1),
        "TOTAL_LOG_FILES": 2.0,
    }
    without = FileSlice(PartitionPath("p"), FileId("f"), "1", None, (log,))
    assert slice_metrics((without,), 120 * MB)["TOTAL_IO_MB"] == 121.0


def test_by_log_size_the_largest_come_first_and_small_ones_are_missing() -> None:
    operations = [operation("a", 5), operation("b", 50), operation("c", 9), operation("d", 10)]
    chosen, missing = choose_operations(settings("LogFileSizeBased", log_size=9), operations, TODAY)
    assert [each.partition_path for each in chosen] == ["b", "d", "c"]
    assert missing == ("a",)


def test_by_number_of_logs() -> None:
    operations = [operation("a", logs=1), operation("b", logs=2), operation("c", logs=3)]
    chosen, missing = choose_operations(settings("LogFileNumBased", log_files=2), operations, TODAY)
    assert [each.partition_path for each in chosen] == ["c", "b"]
    assert missing == ("a",)


def test_io_is_bounded_but_for_the_last_one() -> None:
    operations = [operation(name, io_mb=40) for name in "abcd"]
    chosen, missing = choose_operations(settings("BoundedIO", target_io_mb=50), operations, TODAY)
    assert [each.partition_path for each in chosen] == ["a", "b"]
    assert missing == ("c", "d")
    assert choose_operations(settings("UnBounded", target_io_mb=50), operations, TODAY) == (operations, ())


def test_by_day_the_latest_partitions_come_first() -> None:
    partitions = ["2024/03/09", "2024/12/31", "2024/03/10", "2023/01/01"]
    assert choose_partitions(settings("DayBased", day_partitions=2), partitions, TODAY) == ["2024/12/31", "2024/03/10"]
    hive = ["y=2024/m=3/d=9", "y=2024/m=12/d=31"]
    assert choose_partitions(settings("DayBased"), hive, TODAY) == hive[::-1]


def test_bounded_by_partition_and_its_counterpart_share_the_partitions_out() -> None:
    partitions = ["2024/03/07", "2024/03/08", "2024/03/10", "2024/04/01"]
    recent = choose_partitions(settings("BoundedPartitionAware", day_partitions=2), partitions, TODAY)
    assert recent == ["2024/04/01", "2024/03/10", "2024/03/08"]
    older = choose_partitions(settings("UnBoundedPartitionAware", day_partitions=2), partitions, TODAY)
    assert older == ["2024/03/07"]
    operations = [operation(path) for path in partitions]
    chosen, missing = choose_operations(settings("BoundedPartitionAware", day_partitions=2), operations, TODAY)
    assert ([each.partition_path for each in chosen], missing) == (recent, ())
    chosen, _ = choose_operations(settings("UnBoundedPartitionAware", day_partitions=2), operations, TODAY)
    assert [each.partition_path for each in chosen] == older


def test_by_pattern_a_part_of_the_path_is_enough() -> None:
    partitions = ["city=oslo", "city=lima"]
    assert choose_partitions(settings("PartitionRegexBased", partition_regex="os.o$"), partitions, TODAY) == [
        "city=oslo"
    ]


def test_strategies_in_a_row_each_choose_from_what_is_left() -> None:
    chain = settings("PartitionRegexBased", "LogFileSizeBased", partition_regex="^[ab]", log_size=5)
    assert choose_partitions(chain, ["a", "b", "c"], TODAY) == ["a", "b"]
    chosen, missing = choose_operations(chain, [operation("a", 1), operation("b", 7)], TODAY)
    assert [each.partition_path for each in chosen] == ["b"]
    assert missing == ("a",)


def test_a_partition_that_is_no_date_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"partition 'oslo' is not a date.*hoodie\.compaction\.strategy"):
        choose_partitions(settings("DayBased"), ["oslo"], TODAY)


def test_options() -> None:
    package = "org.apache.hudi.table.action.compact.strategy."
    options = Options.resolve(
        {
            "hoodie.compaction.strategy": f"{package}PartitionRegexBasedCompactionStrategy,UnBoundedCompactionStrategy",
            "hoodie.compaction.partition.path.regex": "a+",
            "hoodie.compaction.target.io": 7,
        }
    )
    assert choose_partitions(options, ["a", "b"], TODAY) == ["a"]
    with pytest.raises(ConfigError, match="regular expression"):
        choose_partitions(Options.resolve({"hoodie.compaction.partition.path.regex": "("}), ["a"], TODAY)
    with pytest.raises(ConfigError, match="LogFileSizeBasedCompactionStrategy, "):
        Options.resolve({"hoodie.compaction.strategy": "com.example.Mine"})
