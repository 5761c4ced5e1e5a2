"""HTTP servers in a thread of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class Handler(BaseHTTPRequestHandler):
    """Takes requests of any verb to `respond`."""

    protocol_version = "HTTP/1.1"
    # An answer in one packet
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def respond(self) -> None:
        self.answer(501)

    def handle_expect_100(self) -> bool:
        """Asks for the body at once: s3a waits for that up to three seconds."""
        asked = super().handle_expect_100()
        self.wfile.flush()
        return asked

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # of a client that has ended
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the client may not have waited
            super().finish()

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self.respond
        raise AttributeError(name)

    def log_message(self, *_: object) -> None:
        pass

    def target(self) -> tuple[str, dict[str, str]]:
        """Path without its first part, which is the bucket, and query."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        return unquote(url.path).lstrip("/").partition("/")[2], query

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> None:
        """To HEAD without its body; a length among the headers is then that of the body left out."""
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self) -> None:
        """Ends the connection without an answer."""
        self.close_connection = True
        self.connection.close()


@contextlib.contextmanager
def listening(handler: type[Handler]) -> Iterator[str]:
    """A server on 127.0.0.1; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
