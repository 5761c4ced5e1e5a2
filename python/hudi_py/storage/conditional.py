"""Conditional writes to an object store: create unless absent, replace unless changed.

A store may answer "exists" or "precondition failed" to a request that was repeated because its first answer was lost,
and any other error may arrive after the object was stored. So the stored object decides, never the answer: its metadata
names the call that wrote it, and if a store keeps no metadata the contents are compared.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import uuid
from typing import Any, NamedTuple

from hudi_py.errors import ConfigError

WRITER = "hudipywriter"
"""Metadata key that holds a random id of the writing call. Azure allows no hyphens in keys."""
_TRIES = 5
_PAUSE_S = 0.1
_PROBED: set[str] = set()
_PROBED_LOCK = threading.Lock()


class Version(NamedTuple):
    """A store's identifier of one version of an object."""

    e_tag: str | None
    version: str | None
    """Generation on Google Cloud Storage."""

    def mode(self) -> dict[str, str]:
        """Returns the condition in obstore's form."""
        return {key: value for key, value in self._asdict().items() if value is not None}


class VersionedObject(NamedTuple):
    """An object's content at the time it was read."""

    data: bytes
    version: Version
    note: str
    """The writer's note in the object's metadata; empty if there is none."""
    modified_ms: int


class ConditionalWrites:
    """Conditional writes to one obstore store. Raises obstore's own errors."""

    def __init__(self, obstore: Any, exceptions: Any, store: Any) -> None:
        self._obstore = obstore
        self._exceptions = exceptions
        self._store = store
        self._takes_metadata = True

    def create(self, path: str, data: bytes) -> bool:
        """Creates an object unless it exists. Returns whether this call created it."""
        writer = uuid.uuid4().hex
        for attempt in itertools.count(1):
            try:
                self._put(path, data, "create", writer)
                return True
            except self._exceptions.BaseError as error:
                if self._is_refusal(error):
                    raise
                created = self._created_by(path, data, writer, error)
                if created is not None:
                    return created
                if attempt == _TRIES:
                    raise
            time.sleep(_PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")

    def replace(self, path: str, data: bytes, version: Version | None, note: str) -> Version | None:
        """Writes an object if its version is still `version` (None: if there is none).

        Args:
            data: content that no other write has ever had.

        Returns:
            The new version; None when another writer came first.
        """
        for attempt in itertools.count(1):
            try:
                answer = self._put(path, data, "create" if version is None else version.mode(), note)
                return Version(answer.get("e_tag"), answer.get("version"))
            except self._exceptions.BaseError as error:
                if self._is_refusal(error):
                    raise
                current = self.read(path)
                if current is not None and current.data == data:
                    return current.version
                if (None if current is None else current.version) != version:
                    return None
                if attempt == _TRIES:  # nothing was stored, though the condition held
                    raise
            time.sleep(_PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")

    def read(self, path: str) -> VersionedObject | None:
        """Reads an object and its version; None if there is none."""
        try:
            value = self._obstore.get(self._store, path)
            meta = value.meta
            return VersionedObject(
                bytes(value.bytes()),
                Version(meta.get("e_tag"), meta.get("version")),
                value.attributes.get(WRITER) or "",
                int(meta["last_modified"].timestamp() * 1000),
            )
        except FileNotFoundError:
            return None

    def probe(self, name: str, shown: str, path: str) -> None:
        """Checks once per process and store, with a temporary object, that conditions are honoured.

        Args:
            name: identifies the store.
            shown: the store in messages.

        Raises:
            ConfigError: the store ignores conditions.
        """
        with _PROBED_LOCK:
            if name in _PROBED:
                return
        try:
            first = self.replace(path, b"1", None, "probe")
            generation = "1" if first is not None and first.version is not None else None
            stale = Version(f'"{uuid.uuid4().hex}"', generation).mode()
            for mode, condition in (("create", "If-None-Match"), (stale, "If-Match")):
                if self._ignores(path, mode):
                    raise ConfigError(
                        f"Cannot write to {shown}: the store ignores conditions of requests ({condition}), so that two "
                        "writers would overwrite each other's commits; use a release of the store that supports "
                        "conditional writes, or another store; tables there can only be read"
                    )
        except BaseException:
            with contextlib.suppress(self._exceptions.BaseError, FileNotFoundError):
                self._obstore.delete(self._store, path)
            raise
        self._obstore.delete(self._store, path)
        with _PROBED_LOCK:
            _PROBED.add(name)

    def _ignores(self, path: str, mode: Any) -> bool:
        try:
            self._put(path, b"2", mode, "probe")
        except (self._exceptions.AlreadyExistsError, self._exceptions.PreconditionError):
            return False
        return True

    def _put(self, path: str, data: bytes, mode: Any, note: str) -> Any:
        if self._takes_metadata:
            try:
                return self._obstore.put(self._store, path, data, mode=mode, attributes={WRITER: note})
            except (NotImplementedError, self._exceptions.NotSupportedError):
                self._takes_metadata = False
        return self._obstore.put(self._store, path, data, mode=mode)

    def _created_by(self, path: str, data: bytes, writer: str, error: Exception) -> bool | None:
        """Returns whether this writer created the existing object; None if there is none. Raises `error` if it cannot
        tell.

        Empty content without metadata does not identify the writer; then the store's answer "exists" is trusted.
        """
        try:
            current = self.read(path)
        except self._exceptions.BaseError:
            raise error from None
        if current is None:
            return None
        if current.note:
            return current.note == writer
        exists = self._exceptions.AlreadyExistsError, self._exceptions.PreconditionError
        if not data and not current.data and not isinstance(error, exists):
            raise error
        return bool(data) and current.data == data

    def _is_refusal(self, error: Exception) -> bool:
        """Returns whether the store refused the request, so that nothing was stored."""
        names = "InvalidPathError", "NotSupportedError", "PermissionDeniedError", "UnauthenticatedError"
        return isinstance(error, tuple(getattr(self._exceptions, name) for name in names))
