"""Options of metrics (`HoodieMetricsConfig`, `HoodieMetricsPrometheusConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, declared, flag, integer, optional_choice, text

PUSH: Final = "PROMETHEUS_PUSHGATEWAY"
SERVE: Final = "PROMETHEUS"
CONSOLE: Final = "CONSOLE"
LOG: Final = "SLF4J"
MEMORY: Final = "INMEMORY"
_PREFIX: Final = "hoodie.metrics."
_USE: Final = "use PROMETHEUS_PUSHGATEWAY or PROMETHEUS, which other systems can read"

ENABLED = flag(
    f"{_PREFIX}on",
    "Whether writes and table services report metrics. See [metrics](metrics.md).",
    Scope.SERVICE,
    False,
)
REPORTER = optional_choice(
    f"{_PREFIX}reporter.type",
    "Where they go: PROMETHEUS_PUSHGATEWAY (pushed once after each action), PROMETHEUS (served by this process while "
    "it runs), CONSOLE (printed on standard output), SLF4J (logged) or INMEMORY (`hudi_py.interop.metrics.reported`). "
    "It must be set: Apache Hudi's default, GRAPHITE, is refused.",
    Scope.SERVICE,
    (PUSH, SERVE, CONSOLE, LOG, MEMORY),
    not_built=dict.fromkeys(("GRAPHITE", "JMX", "DATADOG", "CLOUDWATCH", "M3"), _USE),
)
PREFIX = text(
    f"{_PREFIX}reporter.metricsname.prefix",
    "First part of the names. Default: the name of the table.",
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
    f"{_PREFIX}pushgateway.host", "Host of the push gateway.", Scope.SERVICE, "localhost", example="pushgateway"
)
PUSH_PORT = integer(f"{_PREFIX}pushgateway.port", "Its port; with 443, over HTTPS.", Scope.SERVICE, 9091, minimum=1)
PUSH_JOB = text(
    f"{_PREFIX}pushgateway.job.name", "Job under which metrics are pushed.", Scope.SERVICE, "", example="trips"
)
PUSH_RANDOM = flag(
    f"{_PREFIX}pushgateway.random.job.name.suffix",
    "Whether a random number, one for each process, is added to the name of the job.",
    Scope.SERVICE,
    True,
)
PUSH_DELETE = flag(
    f"{_PREFIX}pushgateway.delete.on.shutdown",
    "Whether the process deletes what it has pushed when it ends. Set `false` for jobs that may end before Prometheus "
    "reads the gateway.",
    Scope.SERVICE,
    True,
)
LABELS = text(
    f"{_PREFIX}pushgateway.report.labels",
    "Labels of what is pushed or served, as `name:value,name:value`.",
    Scope.SERVICE,
    "",
    example="team:data",
)
SERVE_PORT = integer(f"{_PREFIX}prometheus.port", "Port of PROMETHEUS.", Scope.SERVICE, 9090, minimum=0)

OPTIONS = declared(globals())
