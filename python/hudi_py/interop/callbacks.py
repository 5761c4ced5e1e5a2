"""Notifies an HTTP service of each commit (`HoodieWriteCommitHttpCallbackClient`, `HoodieWriteCommitCallbackMessage`,
1.2.0)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import monitoring as config
from hudi_py.errors import ConfigError, HudiError, first_line
from hudi_py.interop.http import Client, HttpError, checked_url
from hudi_py.model.commit import CompactedLogs, WriteStat
from hudi_py.model.properties import TableConfig
from hudi_py.timeline.metadata import read_commit_metadata, write_stat_json
from hudi_py.transaction.protocols import Committed
from hudi_py.transaction.session import TableSession

_log = logging.getLogger(__name__)
_KEY_HEADER: Final = "HUDI-CALLBACK-KEY"


@dataclass(frozen=True, slots=True)
class CommitCallback:
    """Sends a message after each commit. Implements `AfterCommit`. The session provides key and headers."""

    url: str
    timeout_s: int

    @classmethod
    def of(cls, options: Options) -> CommitCallback | None:
        """Builds the callback that options request; None if it is off.

        Raises:
            ConfigError: there is no address, or a header is not `name:value`.
        """
        if not options.get(config.CALLBACK_ENABLED):
            return None
        options.get(config.CALLBACK_CLASS)  # refuses unknown classes
        url = options.get(config.CALLBACK_URL)
        if url is None:
            raise ConfigError(
                f"Cannot call back after commits: {config.CALLBACK_ENABLED.key} = 'true' needs "
                f"{config.CALLBACK_URL.key}"
            )
        _sent_headers(options.storage)
        return cls(checked_url(url), options.get(config.CALLBACK_TIMEOUT_S))

    def check(self, config: TableConfig) -> None:
        """See `AfterCommit.check`. Accepts any table."""

    def run(self, session: TableSession, committed: Committed) -> tuple[str, ...]:
        """Sends the message. A failure is a warning, as in Apache Hudi."""
        try:
            text = json.dumps(_commit_message(session, committed), ensure_ascii=False)
            headers = _sent_headers(session.storage_options or {})
            Client(self.url, headers, self.timeout_s).post_text(text)
        except (HttpError, HudiError, OSError) as error:
            _log.warning(
                "the commit %s of %s was not sent to the service of %s: %s",
                committed.instant,
                session.storage.uri,
                config.CALLBACK_URL.key,
                first_line(error),
            )
            return ()
        return ("callback",)


def _commit_message(session: TableSession, committed: Committed) -> dict[str, Any]:
    timeline = session.timeline()
    instant = timeline.find(committed.instant)
    if instant is None:
        raise HudiError(f"the instant {committed.instant} is no longer on the timeline")
    metadata = read_commit_metadata(session.storage, timeline.layout, instant, may_be_empty=True)
    return {
        "commitTime": committed.instant,
        "tableName": session.config.name,
        "basePath": session.storage.uri,
        "hoodieWriteStat": [_stat_members(stat) for stat in metadata.stats],
        "commitActionType": _present_option(instant.action.comparable.value),
        "extraMetadata": _present_option(dict(metadata.extra)),
    }


def _stat_members(stat: WriteStat) -> dict[str, Any]:
    """Returns the members of `HoodieWriteStat` that Jackson writes, which are more than in commit metadata."""
    logs = stat.compacted or CompactedLogs()
    return {
        "numUpdates": 0,
        "totalLogReadTimeMs": logs.read_ms,
        "totalValidLogBlocks": 0,
        "totalLogBlocksSize": 0,
        "totalLogBlocksScanTimeMs": 0,
        "prevBaseFile": None,
        "columnStats": {"empty": True, "present": False},
        **write_stat_json(stat),
    }


def _present_option(value: Any) -> dict[str, Any]:
    """Converts an `Option` as Jackson does, which leaves its value out; here it is added."""
    return {"empty": False, "present": True, "value": value}


def _sent_headers(secrets: Mapping[str, str]) -> dict[str, str]:
    """Returns key and headers, given among the storage options."""
    key = secrets.get(config.CALLBACK_API_KEY.key, config.CALLBACK_API_KEY.default)
    headers = {_KEY_HEADER: key}
    for part in filter(str.strip, secrets.get(config.CALLBACK_HEADERS.key, "").split(";")):
        name, colon, value = part.partition(":")
        if not colon or not name.strip() or not value.strip() or any(mark in part for mark in "\r\n"):
            raise ConfigError(f"Option {config.CALLBACK_HEADERS.key} is not valid: expected name:value;name:value")
        headers[name.strip()] = value.strip()
    return headers
