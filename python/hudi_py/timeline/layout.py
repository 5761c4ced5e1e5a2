"""Names of the timeline's files, in layouts 0 and 1 (table versions 2 to 6) and layout 2 (8 and 9).

Releases before 0.5.1 created tables with layout 0. It has the names of layout 1, but renames one file from state to
state: `T.commit.requested` to `T.inflight`, and that to `T.commit`. So a completed instant has no other file, and the
plan of an inflight compaction is only in `.hoodie/.aux`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hudi_py.errors import ConfigError
from hudi_py.model.instant import Action, CompletionTime, Instant, InstantTime, State
from hudi_py.model.layout import AUXILIARY
from hudi_py.model.names import join_path
from hudi_py.model.properties import TableConfig

_NAME = re.compile(r"(\d+)(?:_(\d+))?\.(\w+)(?:\.(requested|inflight))?", re.ASCII)
_ACTIONS = {action.value: action for action in Action}
_STATES = {"requested": State.REQUESTED, "inflight": State.INFLIGHT}
_NEVER_COMPLETED = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of instants (`InstantFileNameGeneratorV1`, `V2`, 1.2.0)."""

    version: int
    """0, 1 or 2."""
    folder: str
    """Timeline folder, relative to the table's base path."""

    @property
    def has_completion_times(self) -> bool:
        """Returns whether names of completed instants end in their completion time (layout 2)."""
        return self.version >= 2

    def requested_name(self, instant_time: str, action: Action) -> str:
        """Returns the name of a requested instant. Raises ConfigError for a savepoint, which has no requested state."""
        if action is Action.SAVEPOINT:
            raise ConfigError(f"Cannot name a requested savepoint at {instant_time}; savepoints begin as inflight")
        return f"{instant_time}.{self._pending(action).value}.requested"

    def inflight_name(self, instant_time: str, action: Action) -> str:
        if action is Action.COMMIT:
            return f"{instant_time}.inflight"
        return f"{instant_time}.{self._pending(action).value}.inflight"

    def completed_name(self, instant_time: str, action: Action, completion_time: str | None = None) -> str:
        """Returns the name of a completed instant. Only names of layout 2 have the completion time; raises ConfigError
        if it is missing there."""
        if not self.has_completion_times:
            return f"{instant_time}.{action.comparable.value}"
        if not completion_time:
            raise ConfigError(f"Cannot name the completed {action.value} of {instant_time} without its completion time")
        return f"{instant_time}_{completion_time}.{action.comparable.value}"

    def plan_paths(self, instant_time: str, action: Action) -> tuple[str, ...]:
        """Returns possible paths of a pending instant's plan, relative to the table's base path, most likely first.

        Releases before 0.14 kept a copy of compaction plans in `.aux` (`CompactionUtils.getCompactionPlan`).
        """
        name = self.requested_name(instant_time, action)
        if self.version < 2 and action is Action.COMPACTION:
            return self.path(name), join_path(AUXILIARY, name)
        return (self.path(name),)

    def path(self, name: str) -> str:
        """Returns the path of a timeline file, relative to the table's base path."""
        return join_path(self.folder, name)

    def parse(self, name: str) -> Instant | None:
        """Parses the name of a state file; None for other files.

        `completion_time` comes from the name: None in layouts 0 and 1, and for completed layout-2 names without one,
        which are marked `legacy`.
        """
        return _parse(self.version, name)

    def _pending(self, action: Action) -> Action:
        # Layouts 0 and 1 have no separate name for clustering
        return Action.REPLACE_COMMIT if self.version < 2 and action is Action.CLUSTERING else action


@lru_cache(maxsize=1 << 14)  # a timeline is listed several times by each action
def _parse(version: int, name: str) -> Instant | None:
    match = _NAME.fullmatch(name)
    if not match:
        return None
    time, completion, word, suffix = match.groups()
    if completion is not None and (suffix is not None or version < 2):
        return None
    if word == "inflight" and suffix is None and completion is None:
        return Instant(InstantTime(time), Action.COMMIT, State.INFLIGHT, name)
    action = _ACTIONS.get(word)
    if action is None:
        return None
    if suffix is not None:
        return Instant(InstantTime(time), action, _STATES[suffix], name)
    if action in _NEVER_COMPLETED:
        return None
    legacy = version == 2 and completion is None
    completed = CompletionTime(completion) if completion is not None else None
    return Instant(InstantTime(time), action, State.COMPLETED, name, completed, legacy)


def layout_for(config: TableConfig) -> Layout:
    """Returns the layout of a table's timeline."""
    return Layout(config.layout, config.timeline_folder)
