"""A server between a client and an object store that counts requests, and spoils some of them."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.answering import Handler, listening

CONDITIONS = ("if-match", "if-none-match", "x-goog-if-generation-match")


@dataclass(frozen=True)
class Request:
    """A request as the proxy sees it."""

    verb: str
    """`GET`, `HEAD`, `PUT`, `POST`, `DELETE`, or `LIST`."""
    key: str
    """Of the object, or the prefix that is listed."""
    conditional: bool
    signer: str = ""
    """Access key that a request to a service of AWS is signed with."""

    @property
    def changes(self) -> bool:
        return self.verb in ("PUT", "POST", "DELETE")


@dataclass(frozen=True)
class Spoilt:
    """What becomes of a request."""

    status: int | None = None
    """Answer; None: the connection ends without one."""
    forwarded: bool = True
    """Whether it reaches the store."""
    delay_s: float = 0
    """Wait before it is answered; with neither status nor end of the connection, it is answered right then."""
    ends: bool = True


@dataclass
class Proxy:
    """What has gone through, and what is to go wrong."""

    url: str
    requests: list[Request] = field(default_factory=list)
    spoil: Callable[[int, Request], Spoilt | None] = lambda number, request: None
    """Of the number of a request, from 0, and the request."""

    def reset(self, spoil: Callable[[int, Request], Spoilt | None] = lambda number, request: None) -> None:
        """Counts from 0 again."""
        self.requests, self.spoil = [], spoil

    def counts(self) -> dict[str, int]:
        """Requests by verb, sorted."""
        verbs = [request.verb for request in self.requests]
        return {verb: verbs.count(verb) for verb in sorted(set(verbs))}


@contextlib.contextmanager
def between(target: str) -> Iterator[Proxy]:
    """A proxy on 127.0.0.1 of the server at an address."""
    parts = urlsplit(target)
    guard = threading.Lock()
    proxy = Proxy("")

    class Passing(Handler):
        def setup(self) -> None:
            super().setup()
            self.upstream = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

        def finish(self) -> None:
            self.upstream.close()
            super().finish()

        def described(self) -> Request:
            key, query = self.target()
            conditional = any(name.lower() in CONDITIONS for name in self.headers)
            if "list-type" in query or query.get("comp") == "list":
                return Request("LIST", query.get("prefix", ""), conditional)
            signed = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
            return Request(self.command, key, conditional, signed[1] if signed else "")

        def respond(self) -> None:
            request = self.described()
            body = self.body()
            with guard:
                number = len(proxy.requests)
                proxy.requests.append(request)
                spoilt = proxy.spoil(number, request)
            status, headers, answer = (0, [], b"")
            if spoilt is None or spoilt.forwarded:
                status, headers, answer = self.forward(body)
            if spoilt is not None:
                time.sleep(spoilt.delay_s)
                if spoilt.status is not None:
                    status, headers = spoilt.status, []
                    answer = b"<Error><Code>Spoilt</Code><Message>spoilt by the proxy</Message></Error>"
                elif spoilt.ends:
                    self.hang_up()
                    return
            with contextlib.suppress(OSError):  # the client may not have waited
                self.answer(status, answer, headers)

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            self.upstream.request(self.command, self.path, body, headers)
            with self.upstream.getresponse() as response:
                return response.status, response.getheaders(), response.read()

    with listening(Passing) as proxy.url:
        yield proxy
