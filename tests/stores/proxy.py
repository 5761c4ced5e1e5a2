"""A server between a client and S3 that counts requests, and spoils some of them."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Request:
    """A request as the proxy sees it."""

    verb: str
    """`GET`, `HEAD`, `PUT`, `POST`, `DELETE`, or `LIST`."""
    key: str
    """Of the object, or the prefix that is listed."""
    conditional: bool

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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def setup(self) -> None:
            super().setup()
            self.upstream = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

        def finish(self) -> None:
            self.upstream.close()
            with contextlib.suppress(OSError):
                super().finish()

        def described(self) -> Request:
            url = urlsplit(self.path)
            query = parse_qs(url.query, keep_blank_values=True)
            conditional = any(name.lower() in ("if-match", "if-none-match") for name in self.headers)
            if "list-type" in query:
                return Request("LIST", query.get("prefix", [""])[0], conditional)
            return Request(self.command, unquote(url.path).lstrip("/").partition("/")[2], conditional)

        def pass_on(self) -> None:
            request = self.described()
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
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
                    self.close_connection = True
                    self.connection.close()
                    return
            with contextlib.suppress(OSError):  # the client may not have waited
                self.answer(status, headers, answer)

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            self.upstream.request(self.command, self.path, body, headers)
            with self.upstream.getresponse() as response:
                return response.status, response.getheaders(), response.read()

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    for verb in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{verb}", Handler.pass_on)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
