"""Options of archiving under short names."""

from __future__ import annotations

from hudi_py.config import DEFAULTS, Option, Options, compaction
from hudi_py.config import services as services_config

_SHORT: dict[str, Option[object]] = {
    "min_commits": services_config.ARCHIVE_MIN_COMMITS,
    "max_commits": services_config.ARCHIVE_MAX_COMMITS,
    "beyond_savepoint": services_config.ARCHIVE_BEYOND_SAVEPOINT,
    "block_on_clean": services_config.ARCHIVE_BLOCK_ON_CLEAN,
    "merge": services_config.ARCHIVE_MERGE,
    "merge_batch": services_config.ARCHIVE_MERGE_BATCH,
    "compaction_batch": services_config.ARCHIVE_COMPACTION_BATCH,
    "manifests_retained": services_config.ARCHIVE_MANIFESTS_RETAINED,
    "cleaner_policy": services_config.CLEAN_POLICY,
    "cleaner_commits": services_config.CLEAN_COMMITS_RETAINED,
    "cleaner_hours": services_config.CLEAN_HOURS_RETAINED,
    "compaction_commits": compaction.MAX_DELTA_COMMITS,
}


def archiving(base: Options = DEFAULTS, **given: object) -> Options:
    """Those of `base`, and some more. `compaction_commits=None`: compactions do not count commits."""
    values = {
        _SHORT[name]: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()
    }
    if "compaction_commits" in given:
        counts = given["compaction_commits"] is not None
        values[compaction.TRIGGER_STRATEGY] = "NUM_COMMITS" if counts else "TIME_ELAPSED"
        if not counts:
            del values[compaction.MAX_DELTA_COMMITS]
    return base.replace(values)
