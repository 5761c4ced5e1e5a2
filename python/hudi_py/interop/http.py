"""Sends HTTP requests with the standard library."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from hudi_py.errors import ConfigError


class HttpError(Exception):
    """The request got no answer, or a status of 300 or above. The message contains neither headers nor the request's
    body."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """None without an answer."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the credentials to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to one service."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May contain credentials."""
    timeout_s: float = 60

    def __post_init__(self) -> None:
        checked_url(self.base)

    def get(self, path: str) -> Any:
        """Gets JSON. Raises HttpError."""
        return _parse_body(self._send("GET", path, None, {}))

    def post(self, path: str, body: Any) -> Any:
        """Sends JSON and returns the answer's JSON, None if it is empty. Raises HttpError."""
        return _parse_body(self._send("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"}))

    def post_text(self, text: str) -> None:
        """Sends text that is JSON; ignores the answer's content. Raises HttpError."""
        self._send("POST", "", text.encode(), {"Content-Type": "application/json; charset=UTF-8"})

    def post_form(self, path: str, values: Mapping[str, str]) -> Any:
        """Sends a form and returns the answer's JSON. Raises HttpError."""
        kind = "application/x-www-form-urlencoded"
        return _parse_body(self._send("POST", path, urlencode(values).encode(), {"Content-Type": kind}))

    def delete(self, path: str) -> None:
        """Sends DELETE. Raises HttpError."""
        self._send("DELETE", path, None, {})

    def _send(self, method: str, path: str, data: bytes | None, more: Mapping[str, str]) -> bytes:
        url = self.base + path
        request = urllib.request.Request(url, data, {**self.headers, **more}, method=method)
        shown = f"{method} {_without_query(url)}"
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=self.timeout_s) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise HttpError(
                    f"{shown} was answered with {error.code}: {_failure_reason(error)}", error.code
                ) from None
        except (OSError, HTTPException) as error:
            raise HttpError(f"{shown} had no answer: {getattr(error, 'reason', None) or error}") from None


def checked_url(url: str) -> str:
    """Checks that a text is an HTTP address without a user. Raises ConfigError otherwise."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            f"Cannot send requests to '{_without_user(url)}': expected http://host or https://host, without a user"
        )
    return url


def _without_user(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{_without_query(path)}"


def _without_query(url: str) -> str:
    return url.partition("?")[0]


def _parse_body(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError:
        raise HttpError(f"the answer is not JSON: {body[:80]!r}") from None


def _failure_reason(error: urllib.error.HTTPError) -> str:
    """Summarises what a service says about an error."""
    try:
        text = error.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict):
        inner = body.get("error")
        text = str((inner.get("message") if isinstance(inner, dict) else None) or body.get("message") or text)
    return text.splitlines()[0][:300] if text else str(error.reason)
