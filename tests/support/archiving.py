"""Options of archiving under short names."""

from __future__ import annotations

from hudi_py.config import DEFAULTS, Option, Options, archive, clean, compaction

_SHORT: dict[str, Option[object]] = {
    "min_commits": archive.MIN_COMMITS,
    "max_commits": archive.MAX_COMMITS,
    "beyond_savepoint": archive.BEYOND_SAVEPOINT,
    "block_on_clean": archive.BLOCK_ON_CLEAN,
    "merge": archive.MERGE,
    "merge_batch": archive.MERGE_BATCH,
    "compaction_batch": archive.COMPACTION_BATCH,
    "manifests_retained": archive.MANIFESTS_RETAINED,
    "cleaner_policy": clean.POLICY,
    "cleaner_commits": clean.COMMITS_RETAINED,
    "cleaner_hours": clean.HOURS_RETAINED,
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
