"""Where metrics go."""

from __future__ import annotations

import atexit
import importlib
import logging
import random
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hudi_py.config import Options
from hudi_py.config import monitoring as config
from hudi_py.errors import ConfigError, first_line

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_memory: dict[str, dict[str, int]] = {}
"""What INMEMORY has been told, by the URI of the table."""
_served: dict[int, dict[str, int]] = {}
"""What PROMETHEUS serves, by port."""
_suffix: Final = random.randrange(1 << 62)
_deleted: set[tuple[str, str]] = set()
"""Gateways and jobs that are forgotten when the process ends."""
_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports the measures of one table. Pickles; holds no credentials."""

    options: Options

    @classmethod
    def of(cls, options: Options) -> Reporter | None:
        """The reporter that options ask for; None if metrics are off.

        Raises:
            ConfigError: no kind of reporter is chosen, its package is missing, or labels are not pairs.
        """
        if not options.get(config.ENABLED):
            return None
        found = cls(options.without_credentials())
        if not found.kind:
            raise ConfigError(
                f"Cannot report metrics: {config.REPORTER.key} is not set, which in Apache Hudi means GRAPHITE; "
                f"supported: {config.REPORTER.expected}"
            )
        if found.kind in (config.PUSH, config.SERVE):
            _prometheus()
        _ = found.labels
        return found

    @property
    def kind(self) -> str:
        """Empty if none is chosen."""
        return self.options.get(config.REPORTER) or ""

    @property
    def labels(self) -> dict[str, str]:
        given = [part.strip() for part in self.options.get(config.LABELS).split(",") if part.strip()]
        wrong = [part for part in given if ":" not in part]
        if wrong:
            raise ConfigError(f"Option {config.LABELS.key} has the label '{wrong[0]}': expected name:value,name:value")
        return {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in given)}

    def report(self, uri: str, table: str, measures: Mapping[str, int]) -> bool:
        """Reports measures of a table, by name without prefix; False with a warning if it failed."""
        prefix = self.options.get(config.PREFIX) or table
        named = {f"{prefix}.{name}" if prefix else name: value for name, value in measures.items()}
        try:
            with _lock:
                self._send(uri, named)
        except Exception as error:  # whatever failed, the action that is reported is done
            _log.warning(
                "the metrics of %s could not be reported to %s: %s; set hoodie.metrics.on=false to go on without them",
                uri,
                self.kind,
                first_line(error),
            )
            return False
        return True

    def _send(self, uri: str, named: dict[str, int]) -> None:
        if self.kind == config.MEMORY:
            _memory.setdefault(uri, {}).update(named)
        elif self.kind == config.CONSOLE:
            lines = [f"-- {datetime.now():%Y-%m-%d %H:%M:%S} metrics of {uri}"]
            sys.stdout.write("\n".join([*lines, *(f"{name} = {value}" for name, value in named.items())]) + "\n")
        elif self.kind == config.LOG:
            for name, value in named.items():
                _log.info("type=GAUGE, name=%s, value=%s", name, value)
        elif self.kind == config.SERVE:
            self._serve(named)
        else:
            self._push(named)

    def _push(self, named: Mapping[str, int]) -> None:
        prometheus = _prometheus()
        get = self.options.get
        host, port = get(config.PUSH_HOST), get(config.PUSH_PORT)
        gateway = f"{'https' if port == 443 else 'http'}://{host}:{port}"
        job = get(config.PUSH_JOB) + (str(_suffix) if get(config.PUSH_RANDOM) else "")
        registry = prometheus.CollectorRegistry()
        for name, value in named.items():
            prometheus.Gauge(metric_name(name), name, registry=registry).set(value)
        prometheus.pushadd_to_gateway(gateway, job=job, registry=registry, grouping_key=self.labels, timeout=_TIMEOUT_S)
        if get(config.PUSH_DELETE) and (gateway, job) not in _deleted:
            _deleted.add((gateway, job))
            atexit.register(_forget, gateway, job, self.labels)

    def _serve(self, named: Mapping[str, int]) -> None:
        port = self.options.get(config.SERVE_PORT)
        if port not in _served:
            prometheus = _prometheus()
            registry = prometheus.CollectorRegistry()
            values: dict[str, int] = {}
            registry.register(_Collector(values, self.labels))
            prometheus.start_http_server(port, registry=registry)
            _served[port] = values
        _served[port].update(named)


class _Collector:
    """Gauges of what was reported last."""

    def __init__(self, values: Mapping[str, int], labels: Mapping[str, str]) -> None:
        self._values = values
        self._labels = labels

    def collect(self) -> Any:
        core = importlib.import_module("prometheus_client.core")
        with _lock:
            values = dict(self._values)
        for name, value in values.items():
            family = core.GaugeMetricFamily(metric_name(name), name, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), value)
            yield family


def metric_name(name: str) -> str:
    """A name as Prometheus allows it (`DropwizardExports`)."""
    found = re.sub(r"[^a-zA-Z0-9:_]", "_", name)
    return f"_{found}" if found[:1].isdigit() else found


def reported(uri: str) -> dict[str, int]:
    """What INMEMORY has in this process for a table, by its URI."""
    with _lock:
        return dict(_memory.get(uri, {}))


def _forget(gateway: str, job: str, labels: Mapping[str, str]) -> None:
    try:
        _prometheus().delete_from_gateway(gateway, job=job, grouping_key=dict(labels), timeout=_TIMEOUT_S)
    except OSError as error:
        _log.warning("the metrics of the job %s stay in the push gateway: %s", job, first_line(error))


def _prometheus() -> Any:
    try:
        return importlib.import_module("prometheus_client")
    except ImportError as error:
        raise ConfigError(
            "Cannot report metrics to Prometheus: the package prometheus_client is missing; install it with "
            "pip install 'hudi-py[metrics]'"
        ) from error
