"""Splits that read with other settings."""

from __future__ import annotations

from dataclasses import replace

from hudi_py.merge import LogMemory
from hudi_py.read import Split


def with_memory(split: Split, memory: LogMemory) -> Split:
    """The split with another limit of memory for its logs."""
    assert split.spec.logs is not None
    return replace(split, spec=replace(split.spec, logs=replace(split.spec.logs, memory=memory)))
