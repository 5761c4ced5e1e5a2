"""Options of monitoring: metrics, and HTTP callbacks after a commit.

`HoodieMetricsConfig`, `HoodieMetricsPrometheusConfig` and `HoodieWriteCommitCallbackConfig`, 1.2.0.
"""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, choice, declared, flag, integer, optional_choice, optional_text, text

PUSH: Final = "PROMETHEUS_PUSHGATEWAY"
SERVE: Final = "PROMETHEUS"
CONSOLE: Final = "CONSOLE"
LOG: Final = "SLF4J"
MEMORY: Final = "INMEMORY"
_METRICS: Final = "hoodie.metrics."
_USE: Final = "use PROMETHEUS_PUSHGATEWAY or PROMETHEUS, which other systems can read"

ENABLED = flag(
    f"{_METRICS}on",
    "Whether writes and table services report metrics. See [metrics](metrics.md).",
    Scope.SERVICE,
    False,
)
REPORTER = optional_choice(
    f"{_METRICS}reporter.type",
    "Where metrics go: PROMETHEUS_PUSHGATEWAY (pushed once after each action), PROMETHEUS (served by this process "
    "while it runs), CONSOLE (printed on standard output), SLF4J (logged) or INMEMORY "
    "(`hudi_py.interop.metrics.reported`). It must be set: Apache Hudi's default, GRAPHITE, is refused.",
    Scope.SERVICE,
    (PUSH, SERVE, CONSOLE, LOG, MEMORY),
    not_built=dict.fromkeys(("GRAPHITE", "JMX", "DATADOG", "CLOUDWATCH", "M3"), _USE),
)
PREFIX = text(
    f"{_METRICS}reporter.metricsname.prefix",
    "First part of the names of metrics. Default: the name of the table.",
    Scope.SERVICE,
    "",
    example="trips",
)
LOG_BLOCKS = flag(
    "hoodie.metricscompaction.log.blocks.on",
    "Whether compactions report numbers of log blocks.",
    Scope.SERVICE,
    False,
)
PUSH_HOST = text(
    f"{_METRICS}pushgateway.host", "Host of the push gateway.", Scope.SERVICE, "localhost", example="pushgateway"
)
PUSH_PORT = integer(
    f"{_METRICS}pushgateway.port", "Port of the push gateway; with 443, over HTTPS.", Scope.SERVICE, 9091, minimum=1
)
PUSH_JOB = text(
    f"{_METRICS}pushgateway.job.name", "Job under which metrics are pushed.", Scope.SERVICE, "", example="trips"
)
PUSH_RANDOM = flag(
    f"{_METRICS}pushgateway.random.job.name.suffix",
    "Whether a random number, one for each process, is added to the name of the job.",
    Scope.SERVICE,
    True,
)
PUSH_DELETE = flag(
    f"{_METRICS}pushgateway.delete.on.shutdown",
    "Whether the process deletes what it has pushed when it ends. Set `false` for jobs that may end before Prometheus "
    "reads the gateway.",
    Scope.SERVICE,
    True,
)
LABELS = text(
    f"{_METRICS}pushgateway.report.labels",
    "Labels of what is pushed or served, as `name:value,name:value`.",
    Scope.SERVICE,
    "",
    example="team:data",
)
SERVE_PORT = integer(f"{_METRICS}prometheus.port", "Port of PROMETHEUS.", Scope.SERVICE, 9090, minimum=0)

METRICS_OPTIONS = declared(globals())


HTTP: Final = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
_CALLBACK: Final = "hoodie.write.commit.callback."

CALLBACK_ENABLED = flag(
    f"{_CALLBACK}on",
    "Whether each commit of a write is reported to an HTTP service. See [callbacks](metrics.md#commit-callbacks).",
    Scope.WRITE,
    False,
)
CALLBACK_CLASS = choice(
    f"{_CALLBACK}class",
    "The class that sends the message. Other Java classes, such as those for Kafka and Pulsar, are refused.",
    Scope.WRITE,
    HTTP,
    (HTTP,),
)
CALLBACK_URL = optional_text(
    f"{_CALLBACK}http.url",
    "Address that receives the message by POST.",
    Scope.WRITE,
    example="https://events:8080/commits",
)
CALLBACK_TIMEOUT_S = integer(
    f"{_CALLBACK}http.timeout.seconds", "How long to wait for an answer.", Scope.WRITE, 30, minimum=1, unit="seconds"
)
CALLBACK_API_KEY = text(
    f"{_CALLBACK}http.api.key",
    "Value of the header `HUDI-CALLBACK-KEY`. It is not shown, logged or stored.",
    Scope.WRITE,
    "hudi_write_commit_http_callback",
    secret=True,
    example="the key",
)
CALLBACK_HEADERS = optional_text(
    f"{_CALLBACK}http.custom.headers",
    "More headers, as `name:value;name:value`. They are not shown, logged or stored.",
    Scope.WRITE,
    secret=True,
    example="team:data;env:prod",
)

CALLBACK_OPTIONS = declared(globals(), METRICS_OPTIONS)
