"""Metrics of writes and table services, by the names of Apache Hudi.

`reported(uri)` returns what the reporter `INMEMORY` holds in this process.
"""

from __future__ import annotations

from hudi_py.interop.metrics.reporters import reported

__all__ = ["reported"]
