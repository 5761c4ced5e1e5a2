"""An object store in a thread of this process: as much of the XML interfaces of S3 and of Google Cloud Storage as
obstore uses, with answers that can be spoilt. Its conditional writes exclude one another."""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import html
import itertools
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hudi_py.storage import conditional
from tests.support.answering import Handler, listening

METADATA = re.compile("x-(amz|goog)-meta-")


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

    url: str = ""
    google: bool = False
    """Whether it is a store of Google's, with generations."""
    files: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Parts of those that are neither complete nor aborted."""
    faults: list[Fault | None] = field(default_factory=list)
    keeps_metadata: bool = True
    honours_conditions: bool = True
    puts: int = 0
    page: int = 1000
    """Most entries of an answer to a listing."""
    lock: Any = field(default_factory=threading.Lock)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1_700_000_000_000_000))

    def put(self, key: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Stores a file unless a condition forbids it. Returns the status. Names of headers are in lower case."""
        there = self.files.get(key)
        if self.honours_conditions:
            if headers.get("if-none-match") == "*" and there is not None:
                return 412
            if "if-match" in headers and (there is None or headers["if-match"] != etag(there[0])):
                return 412
            generation = headers.get("x-goog-if-generation-match")
            if generation is not None and int(generation) != (0 if there is None else self.generations.get(key, 1)):
                return 412
        kept = {name: value for name, value in headers.items() if METADATA.match(name)}
        self.files[key] = (data, kept if self.keeps_metadata else {})
        self.generations[key] = next(self.counter)
        return 200

    def described(self, key: str) -> dict[str, str]:
        """Headers of a file."""
        data, kept = self.files[key]
        generation = {"x-goog-generation": str(self.generations.get(key, 1))} if self.google else {}
        modified = email.utils.formatdate(time.time(), usegmt=True)
        return {"ETag": etag(data), "Last-Modified": modified, **generation, **kept}

    def listed(self, query: Mapping[str, str]) -> bytes:
        """Answer to `list-type=2`."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        names: dict[str, str] = {}
        more = False
        for key in sorted(self.files):
            if not key.startswith(prefix) or key <= after:
                continue
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            name = prefix + head + delimiter if found else key
            if name not in names and len(names) == min(int(query.get("max-keys", self.page)), self.page):
                more = True
                break
            names[name] = key
        parts = [f"<IsTruncated>{str(more).lower()}</IsTruncated>"]
        if more:
            parts.append(f"<NextContinuationToken>{html.escape(list(names.values())[-1])}</NextContinuationToken>")
        modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        for name, key in names.items():
            shown = html.escape(name)
            if name == key:
                data = self.files[key][0]
                parts.append(
                    f"<Contents><Key>{shown}</Key><LastModified>{modified}</LastModified>"
                    f"<ETag>{html.escape(etag(data))}</ETag><Size>{len(data)}</Size></Contents>"
                )
            else:
                parts.append(f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>")
        return f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


@contextlib.contextmanager
def serving(*, google: bool = False) -> Iterator[Store]:
    """A store that listens on 127.0.0.1. All its buckets are one."""
    conditional._PROBED.clear()  # an earlier store may have had this one's port
    store = Store(google=google)

    class Answers(Handler):
        def respond(self) -> None:
            data = self.body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            key, query = self.target()
            with store.lock:
                work = getattr(self, f"on_{self.command.lower()}")
                status, answer, described = work(key, query, data, headers)
            if status is None:
                self.hang_up()
            else:
                with contextlib.suppress(OSError):  # the client may not have waited
                    self.answer(status, answer, described.items())

        def on_put(self, key: str, query: Mapping[str, str], data: bytes, headers: Mapping[str, str]) -> Any:
            if "uploadId" in query:
                store.uploads[query["uploadId"]][int(query["partNumber"])] = data
                return 200, b"", {"ETag": etag(data)}
            fault = store.faults.pop(0) if store.faults else None
            store.puts += 1
            if fault is not None and fault.other is not None:
                store.put(key, fault.other, {f"x-{'goog' if google else 'amz'}-meta-hudipywriter": "another"})
            status = store.put(key, data, headers) if fault is None or fault.stored else 0
            if fault is None:
                return status, b"", store.described(key) if status == 200 else {}
            return fault.answer, f"<Error><Code>{fault.code}</Code></Error>".encode(), {}

        def on_get(self, key: str, query: Mapping[str, str], _: bytes, headers: Mapping[str, str]) -> Any:
            if not key:
                return 200, store.listed(query), {"Content-Type": "application/xml"}
            if key not in store.files:
                return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
            data, described = store.files[key][0], store.described(key)
            wanted = re.fullmatch(r"bytes=(\d*)-(\d+)", headers.get("range", ""))
            if wanted is None:
                return 200, data, {**described, "Content-Length": str(len(data))}
            start, end = max(len(data) - int(wanted[2]), 0), len(data)
            if wanted[1]:
                start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
            if start >= len(data):
                return 416, b"<Error><Code>InvalidRange</Code></Error>", {}
            return 206, data[start:end], {**described, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}

        on_head = on_get

        def on_delete(self, key: str, query: Mapping[str, str], *_: object) -> Any:
            if "uploadId" in query:
                store.uploads.pop(query["uploadId"], None)
                return 204, b"", {}
            return 404 if store.files.pop(key, None) is None and google else 204, b"", {}

        def on_post(self, key: str, query: Mapping[str, str], data: bytes, headers: Mapping[str, str]) -> Any:
            if "uploads" in query:
                upload = f"upload-{next(store.counter)}"
                store.uploads[upload] = {}
                names = f"<Bucket>bucket</Bucket><Key>{html.escape(key)}</Key><UploadId>{upload}</UploadId>"
                result = f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>"
                return 200, result.encode(), {}
            if "uploadId" in query:
                parts = store.uploads.pop(query["uploadId"])
                store.put(key, b"".join(parts[number] for number in sorted(parts)), headers)
                described = store.described(key)
                tag = f"<ETag>{html.escape(described['ETag'])}</ETag>"
                return 200, f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>".encode(), described
            # obstore deletes by a list of keys in S3, even one
            keys = re.findall("<Key>(.*?)</Key>", data.decode())
            for listed in keys:
                store.files.pop(html.unescape(listed), None)
            deleted = "".join(f"<Deleted><Key>{listed}</Key></Deleted>" for listed in keys)
            return 200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), {"Content-Type": "application/xml"}

    with listening(Answers) as store.url:
        yield store
