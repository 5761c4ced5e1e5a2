"""Options of calls over HTTP after a commit (`HoodieWriteCommitCallbackConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, choice, declared, flag, integer, optional_text, text

HTTP: Final = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
_PREFIX: Final = "hoodie.write.commit.callback."

ENABLED = flag(
    f"{_PREFIX}on",
    "Whether each commit of a write is reported to an HTTP service. See [callbacks](metrics.md#commit-callbacks).",
    Scope.WRITE,
    False,
)
CLASS = choice(
    f"{_PREFIX}class",
    "The class that sends the message. Other classes of Java, such as those for Kafka and Pulsar, are refused.",
    Scope.WRITE,
    HTTP,
    (HTTP,),
)
URL = optional_text(
    f"{_PREFIX}http.url", "Address that gets the message by POST.", Scope.WRITE, example="https://events:8080/commits"
)
TIMEOUT_S = integer(
    f"{_PREFIX}http.timeout.seconds", "How long to wait for an answer.", Scope.WRITE, 30, minimum=1, unit="seconds"
)
API_KEY = text(
    f"{_PREFIX}http.api.key",
    "Value of the header `HUDI-CALLBACK-KEY`. It is not shown, logged or stored.",
    Scope.WRITE,
    "hudi_write_commit_http_callback",
    secret=True,
    example="the key",
)
HEADERS = optional_text(
    f"{_PREFIX}http.custom.headers",
    "More headers, as `name:value;name:value`. They are not shown, logged or stored.",
    Scope.WRITE,
    secret=True,
    example="team:data;env:prod",
)

OPTIONS = declared(globals())
