"""The table lock in ZooKeeper, as stored by Curator's `InterProcessMutex` (`BaseZookeeperBasedLockProvider`, 1.2.0).

Every process that wants the lock creates an ephemeral sequential node below `<base path>/<lock key>`. The node with the
lowest number holds the lock, and every other node waits until its predecessor is gone.
"""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError, LockError
from hudi_py.metadata.keys import hash64
from hudi_py.storage import Storage, plain_uri
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import HeldByContext, LockHolder
from hudi_py.transaction.owner.identity import WriterIdentity, process_identity

_log = logging.getLogger(__name__)

_NODE = "-lock-"


class ZookeeperLock(HeldByContext):
    """The lock of one table, held by one thread at a time. Use as a context manager. Connected only while held or
    waited for, as in Java."""

    def __init__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        if settings.zookeeper is None:
            raise ConfigError(f"Cannot {purpose}: the lock in ZooKeeper has no servers")
        super().__init__(settings, purpose)
        self._zookeeper = settings.zookeeper
        if self._zookeeper.base_path is None:
            self._path = f"{implicit_base_path(storage.uri)}/lock_key"
        else:
            key = self._zookeeper.lock_key or load_table_config(storage).name
            self._path = "/" + "/".join(part for part in f"{self._zookeeper.base_path}/{key}".split("/") if part)
        self.place = f"zookeeper://{self._zookeeper.hosts.partition('/')[0]}{self._path}"
        self._client: Any = None
        self._lock: Any = None
        self._lost = False

    def acquire(self) -> None:
        """Waits for the lock.

        Raises:
            LockError: there is no connection, or the lock could not be acquired in time.
        """
        client = self._connect_client()
        try:
            exceptions = importlib.import_module("kazoo.exceptions")
            self._lost = False
            client.add_listener(self._on_state)
            lock, patience_s = _curator_lock(client, self._path), self._settings.lease_patience_ms / 1000
            try:
                acquired = lock.acquire(timeout=patience_s)
            except exceptions.LockTimeout:
                acquired = False
            if not acquired:
                first = _first_in_line(client, self._path)
                raise self._held_error("a writer that has just released it" if first is None else first[1], patience_s)
        except BaseException:
            _close_client(client)
            raise
        self._client, self._lock = client, lock

    def check(self) -> None:
        """Raises LockError if the session was interrupted or the node removed: others may hold the lock."""
        if self._lock is None or self._lost or not self._lock.is_acquired or self._is_gone():
            raise self._lost_error("was lost with the connection to ZooKeeper, or was broken")

    def release(self) -> None:
        """Removes the node and closes the connection."""
        client, self._client = self._client, None
        lock, self._lock = self._lock, None
        if client is None:
            return
        try:
            lock.release()
        except Exception as error:  # the node disappears with the session
            _log.warning("the table lock %s could not be released; it ends with its session: %s", self.place, error)
        finally:
            _close_client(client)

    def holder(self) -> LockHolder | None:
        """Returns the current holder of the lock."""
        with self._open_session() as client:
            first = _first_in_line(client, self._path)
            if first is None:
                return None
            node, process, created_ms = first
            since = datetime.fromtimestamp(created_ms / 1000, timezone.utc)
            return LockHolder("ZookeeperBasedLockProvider", self.place, node, since, None, process)

    def break_held(self, owner: str) -> bool:
        """Removes a holder's node."""
        with self._open_session() as client:
            first = _first_in_line(client, self._path)
            if first is None or first[0] != owner:
                return False
            try:
                client.delete(f"{self._path}/{owner}")
            except importlib.import_module("kazoo.exceptions").NoNodeError:
                return False
            return True

    @contextmanager
    def _open_session(self) -> Iterator[Any]:
        client = self._connect_client()
        try:
            yield client
        finally:
            _close_client(client)

    def _connect_client(self) -> Any:
        kazoo = importlib.import_module("kazoo.client")
        timeout = importlib.import_module("kazoo.handlers.threading").KazooTimeoutError
        session_s = self._settings.get(config.ZOOKEEPER_SESSION_MS) / 1000
        connection_s = self._settings.get(config.ZOOKEEPER_CONNECTION_MS) / 1000
        client = kazoo.KazooClient(self._zookeeper.hosts, timeout=session_s)
        try:
            client.start(timeout=connection_s)
        except timeout as error:
            _close_client(client)
            raise LockError(
                f"Cannot {self._purpose}: no connection to ZooKeeper at {self._zookeeper.hosts} within "
                f"{connection_s:g} s; check {config.ZOOKEEPER_URL.key}"
            ) from error
        return client

    def _on_state(self, state: str) -> None:
        if state != "CONNECTED":  # suspended: the session may end without notice
            self._lost = True

    def _is_gone(self) -> bool:
        try:
            return self._client.exists(f"{self._path}/{self._lock.node}") is None
        except Exception:  # no answer
            return True


def implicit_base_path(uri: str) -> str:
    """Returns the base path of `ZookeeperBasedImplicitBasePathLockProvider`: a hash of the table's path."""
    return f"/tmp/{path_hash(uri)}"


def path_hash(uri: str) -> str:
    """Returns the identifier of a table in Apache Hudi's implicit lock providers, where local paths have no scheme."""
    path = plain_uri(uri).replace("s3a:", "s3:", 1)
    return hash64(path).hex().upper()


def _curator_lock(client: Any, path: str) -> Any:
    """Returns kazoo's lock with Curator's node names, so that hudi-py and Apache Hudi wait for each other's nodes."""
    base: Any = importlib.import_module("kazoo.recipe.lock").Lock
    kind = type("CuratorMutex", (base,), {"_NODE_NAME": _NODE, "_EXCLUDE_NAMES": [_NODE]})
    writer = WriterIdentity(uuid.uuid4().hex, process_identity())
    lock = kind(client, path, identifier=f"application_id=hudi-py, {writer}")
    lock.prefix = f"_c_{uuid.uuid4()}{_NODE}"
    lock.create_path = f"{path}/{lock.prefix}"
    return lock


def _first_in_line(client: Any, path: str) -> tuple[str, str, int] | None:
    """Returns node, description and creation time in milliseconds of the holder; None if there is none."""
    missing = importlib.import_module("kazoo.exceptions").NoNodeError
    try:
        nodes = [node for node in client.get_children(path) if _NODE in node]
        if not nodes:
            return None
        node = min(nodes, key=lambda name: name.rpartition(_NODE)[2])
        data, stat = client.get(f"{path}/{node}")
    except missing:
        return None
    return node, data.decode("utf-8", "replace").removeprefix("application_id="), int(stat.ctime)


def _close_client(client: Any) -> None:
    client.stop()
    client.close()
