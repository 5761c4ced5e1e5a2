"""Errors that hudi-py raised in a process of Spark's, in the process of the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException

from hudi_py import errors
from hudi_py.errors import HudiError

_CLASSES: Final = {
    name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, HudiError)
}
_TOLD: Final = re.compile(rf"(?:^\s*|: ){re.escape(errors.__name__)}\.({'|'.join(_CLASSES)}): (\S.*)$", re.MULTILINE)
"""The line which ends a traceback, as Spark hands it on; where Spark hides tracebacks, its own line goes before."""


@contextmanager
def raised_here() -> Iterator[None]:
    """Raises what hudi-py raised within Spark as the same error here, with its message alone; Spark's is the cause.

    Raises:
        HudiError: as within Spark.
        pyspark.errors.PySparkException: any other failure.
    """
    try:
        yield
    except PySparkException as error:
        told = _TOLD.findall(str(error))
        if not told:
            raise
        name, message = told[-1]
        raise _CLASSES[name](message) from error
