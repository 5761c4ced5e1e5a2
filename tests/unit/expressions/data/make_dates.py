"""Writes `dates.json`: what the timestamp key generator of Apache Hudi 1.2.0 makes of numbers and texts.

Runs in the oracle's environment, from the root of the checkout:

    PYTHONPATH=. .oracle/bin/python tests/unit/write/data/make_dates.py
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from tests.oracle.oracle import start_spark

PREFIX = "hoodie.keygen.timebased."
PRINTED = [
    *("yyyy-MM-dd", "yyyy/MM/dd/HH", "yyyyMMdd", "yyyy-MM-dd'T'HHmmss.SSSZ", "ZZ HH", "yy.M.d", "DDD yyyy", "y-D"),
    *("xxxx-'W'ww-e", "x w xx", "MMM d yyyy", "EEEE MMMM dd", "E MM", "hh a", "h:m:s K k H", "CC YYYY YY"),
    *("'year='yyyy/'month='MM", "yyyyy MMMMM ddd", "S SS SSSS", "yyyy'T''x'MM", "yyyy'open"),
]
ZONES = ["UTC", "GMT+8:00", "GMT-03:30", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"]
PARSED = [
    *("yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyyMMdd", "yyyy-MM-dd HH:mm:ss"),
    *("yy-MM-dd", "yyMMdd", "yyyy MMM d", "d MMMM yyyy", "yyyy DDD", "yyyy-MM-dd hh a", "yyyy-MM-dd KK a", "yyyy"),
    *("yyyy-MM-dd kk", "yyyy-MM-dd Z", "MM/dd/yyyy", "yyyyMMddHHmmssSSS", "YYYY.MM", "yyyy-MM-dd HH:mm:ss.SSSSSS"),
]
TEXTS = [
    *("2020-04-01", "2020-4-1", "2020-02-30", "2019-02-29", "20200401", "2020401", "202041", "2020-04-01 13:01:33"),
    *("2020-04-01 24:00:00", "2020-03-29 02:30:00", "2020-10-25 02:30:00", "2020-04-01T13:01:33Z", "20-04-01"),
    *("2020-04-01T13:01:33.428Z", "2020-04-01T13:01:33.4+05:30", "2020-04-01t13:01:33-0500", "2020-04-01T13:01:33+01"),
    *("2020-04-01T13:01:33+01:30:15", "+20-04-01", "120-04-01", "200401", "20040", "2020 Apr 1", "2020 APRIL 01"),
    *("1 April 2020", "01 Sep 2020", "1 Sept 2020", "2020 060", "2020 366", "2019 366", "2020-04-01 12 AM"),
    *("2020-04-01 12 pm", "2020-04-01 13 PM", "2020-04-01 0 am", "2020-04-01 0 pm", "2020-04-01 24", "2020-04-01 0"),
    *("2020-04-01 +01", "2020-04-01 -0130", "2020-04-01 z", "2020-04-01 UTC", "2020-04-01 +24:00", "2020", "0001"),
    *("04/01/2020", "13/01/2020", "20200401130133428", "2020040113013342", "2020.12", "2020-04-01 13:01:33.123456"),
    *("2020-04-01 13:01:33.1", "2020-04-01 13:01:33.", " 2020-04-01", "2020-04-01 ", "", "today", "2020-04-01\n"),
]
NUMBERS = {
    "UNIX_TIMESTAMP": [0, -1, 1700000000],
    "EPOCHMILLISECONDS": [-1, 1700000000123],
    "EPOCHMICROSECONDS": [-1, -1001, 1700000000123456],
    **{
        f"SCALAR {unit}": [-1, 19675] for unit in ("nanoseconds", "MICROSECONDS", "seconds", "minutes", "hours", "days")
    },
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark = start_spark(scratch)
        jvm = spark._jvm
        chance = random.Random(15)
        known = [0, -1, 1709164799999, -2208988800000, -62135510400000, 253402214399999]
        recorded = []

        def record(options, values):
            properties = jvm.org.apache.hudi.common.config.TypedProperties()
            properties.setProperty("hoodie.datasource.write.recordkey.field", "k")
            properties.setProperty("hoodie.datasource.write.partitionpath.field", "t")
            for name, text in options.items():
                properties.setProperty(PREFIX + name, text)
            generator = jvm.org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator(properties)
            null = generator.getPartitionPath(generator.getDefaultPartitionVal())
            found = []
            for value in values:
                boxed = jvm.java.lang.Long.valueOf(value) if isinstance(value, int) else value
                try:
                    found.append([value, generator.getPartitionPath(boxed)])
                except Exception:
                    found.append([value, None])
            recorded.append({"options": options, "values": [*found, [None, null]]})

        for at, pattern in enumerate(PRINTED):
            for zone in ZONES if at < 2 else [ZONES[at % len(ZONES)]]:
                times = [*known, *(chance.randrange(known[-2], known[-1]) for _ in range(4))]
                times += [chance.randrange(0, 2_000_000_000_000) for _ in range(4)]
                record(
                    {"timestamp.type": "EPOCHMILLISECONDS", "output.dateformat": pattern, "output.timezone": zone},
                    times,
                )
        for at, pattern in enumerate(PARSED):
            options = {"timestamp.type": "DATE_STRING", "input.dateformat": pattern}
            options["output.dateformat"] = "yyyy-MM-dd HHmmss.SSS ZZ"
            zones = [{"timezone": "UTC"}]
            if at < 4:
                zones = [{"timezone": "Europe/Berlin"}, {"input.timezone": "America/New_York"}]
                zones += [{"input.timezone": "Europe/Berlin", "output.timezone": "Asia/Tokyo"}]
            for each in zones:
                record({**options, **each}, TEXTS)
        for kind, values in NUMBERS.items():
            name, _, unit = kind.partition(" ")
            options = {"timestamp.type": name, "output.dateformat": "yyyy-MM-dd HHmmss.SSS", "timezone": "UTC"}
            record({**options, **({"timestamp.scalar.time.unit": unit} if unit else {})}, values)
        spark.stop()
    lines = ",\n".join(json.dumps(each, ensure_ascii=True) for each in recorded)
    Path(__file__).with_name("dates.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
