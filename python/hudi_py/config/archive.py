"""Options of archiving: how many instants stay on the active timeline, and how the archive is kept.

`HoodieArchivalConfig`, 1.2.0; the merge of small archive files as of 0.15.0, where Apache Hudi last had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_py.config.option import Scope, declared, flag, integer
from hudi_py.errors import ConfigError

if TYPE_CHECKING:
    from hudi_py.config.options import Options

AUTOMATIC = flag(
    "hoodie.archive.automatic",
    "Whether instants are archived after a commit if there are more than `hoodie.keep.max.commits`.",
    Scope.SERVICE,
    True,
)
ASYNC = flag(
    "hoodie.archive.async",
    "Only matters if `hoodie.archive.automatic` is true. Apache Hudi then archives in parallel with the write; "
    "hudi-py still archives after the commit, which takes milliseconds.",
    Scope.SERVICE,
    False,
)
MAX_COMMITS = integer(
    "hoodie.keep.max.commits",
    "Maximum number of completed commits on the active timeline before some are archived. More stay if cleaning needs "
    "them.",
    Scope.SERVICE,
    30,
    minimum=1,
    aliases=("archive.max_commits",),
)
MIN_COMMITS = integer(
    "hoodie.keep.min.commits",
    "Number of completed commits that stay on the active timeline when older ones are archived. Must be smaller than "
    "`hoodie.keep.max.commits`. More stay if cleaning needs them.",
    Scope.SERVICE,
    20,
    minimum=1,
    aliases=("archive.min_commits",),
)
BATCH_SIZE = integer(
    "hoodie.commits.archival.batch",
    "Tables before version 8: number of entries in a block of an archive file, one entry for each state of an instant.",
    Scope.SERVICE,
    10,
    minimum=1,
)
BEYOND_SAVEPOINT = flag(
    "hoodie.archive.beyond.savepoint",
    "Whether commits after the first savepoint are archived too; commits with a savepoint always stay. Otherwise "
    "archiving stops at the first savepoint. Apache Hudi 1.2.0 no longer sees the rows of such commits; hudi-py does, "
    "and once it has deleted the savepoint Apache Hudi sees them again.",
    Scope.SERVICE,
    False,
)
BLOCK_ON_CLEAN = flag(
    "hoodie.archive.block.on.latest.clean.ectr",
    "Whether the earliest commit that the last clean retained, and all later ones, stay on the active timeline.",
    Scope.SERVICE,
    False,
)
MERGE = flag(
    "hoodie.archive.merge.enable",
    "Tables before version 8: whether small archive files are merged into larger ones after archiving.",
    Scope.SERVICE,
    False,
)
MERGE_LIMIT = integer(
    "hoodie.archive.merge.small.file.limit.bytes",
    "Archive files up to this size are merged. The newest larger file and all older files stay as they are.",
    Scope.SERVICE,
    20 << 20,
    unit="bytes",
)
MERGE_BATCH = integer(
    "hoodie.archive.merge.files.batch.size",
    "Number of small archive files from which they are merged.",
    Scope.SERVICE,
    10,
    minimum=2,
)
COMPACTION_BATCH = integer(
    "hoodie.timeline.compaction.batch.size",
    "Tables from version 8 on: number of archive files of one level that are merged into one file of the next level.",
    Scope.SERVICE,
    10,
    minimum=2,
)
COMPACTION_TARGET = integer(
    "hoodie.timeline.compaction.target.file.max.bytes",
    "Tables from version 8 on: approximate maximum size of merged archive files.",
    Scope.SERVICE,
    1000 << 20,
    unit="bytes",
    minimum=1,
)
MANIFESTS_RETAINED = integer(
    "hoodie.timeline.manifest.retained.versions",
    "Tables from version 8 on: number of archive versions that stay available to readers that have already opened "
    "them.",
    Scope.SERVICE,
    3,
    minimum=1,
)

OPTIONS = declared(globals())


def check_archive(options: Options) -> None:
    """Raises ConfigError unless more commits may stay on the active timeline than have to."""
    if options.get(MAX_COMMITS) <= options.get(MIN_COMMITS):
        raise ConfigError(
            f"Cannot archive with {MAX_COMMITS.key} = {options.get(MAX_COMMITS)} and {MIN_COMMITS.key} = "
            f"{options.get(MIN_COMMITS)}: the first must be greater than the second"
        )
