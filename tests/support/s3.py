"""An object store in a thread of this process: as much of S3 as files one by one take, with answers that can be
spoilt."""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import html
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

METADATA = "x-amz-meta-"


@dataclass(frozen=True)
class Fault:
    """What becomes of a request that puts a file."""

    answer: int | None
    """Status; None: the connection ends without one."""
    stored: bool
    other: bytes | None = None
    """Content that another writer stores just before."""
    code: str = "Spoilt"
    """What the answer calls the error."""


@dataclass
class Store:
    """The store, and what is to go wrong: a fault for each of the next puts, None: it goes well."""

    url: str
    files: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    faults: list[Fault | None] = field(default_factory=list)
    keeps_metadata: bool = True
    honours_conditions: bool = True
    puts: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def put(self, key: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Stores a file unless a condition forbids it. Returns the status. Names of headers are in lower case."""
        there = self.files.get(key)
        if self.honours_conditions:
            if headers.get("if-none-match") == "*" and there is not None:
                return 412
            if "if-match" in headers and (there is None or headers["if-match"] != etag(there[0])):
                return 412
        kept = {name: value for name, value in headers.items() if name.startswith(METADATA)}
        self.files[key] = (data, kept if self.keeps_metadata else {})
        return 200


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


@contextlib.contextmanager
def serving() -> Iterator[Store]:
    """A store that listens on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, data: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def key(self) -> str:
            return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with store.lock:
                fault = store.faults.pop(0) if store.faults else None
                store.puts += 1
                if fault is not None and fault.other is not None:
                    store.put(self.key(), fault.other, {METADATA + "hudipywriter": "another"})
                status = 0
                if fault is None or fault.stored:
                    status = store.put(self.key(), data, {name.lower(): value for name, value in self.headers.items()})
            if fault is None:
                self.answer(status, headers={"ETag": etag(data)})
            elif fault.answer is None:
                self.close_connection = True
                self.connection.close()
            else:
                self.answer(fault.answer, f"<Error><Code>{fault.code}</Code></Error>".encode())

        def do_GET(self) -> None:
            with store.lock:
                found = store.files.get(self.key())
            if found is None:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            data, kept = found
            modified = email.utils.formatdate(time.time(), usegmt=True)
            headers = {"ETag": etag(data), "Last-Modified": modified, **kept}
            return self.answer(200, data, headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_DELETE(self) -> None:
            with store.lock:
                store.files.pop(self.key(), None)
            self.answer(204)

        def do_POST(self) -> None:  # obstore deletes by a list of keys, even one
            listed = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            keys = re.findall("<Key>(.*?)</Key>", listed)
            with store.lock:
                for key in keys:
                    store.files.pop(html.unescape(key), None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), {"Content-Type": "application/xml"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store = Store(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
