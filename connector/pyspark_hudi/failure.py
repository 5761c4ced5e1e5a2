"""Raises errors of hudi-py that occurred in Spark's processes as themselves in the caller's."""

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
_RAISED: Final = re.compile(rf"(?:^\s*|: ){re.escape(errors.__name__)}\.({'|'.join(_CLASSES)}): (\S.*)$", re.MULTILINE)
"""The last line of a traceback. Where Spark hides tracebacks, its own text precedes the error on that line."""


@contextmanager
def raised_here() -> Iterator[None]:
    """Raise an error of hudi-py from within Spark as the same class with the same message.

    Spark's error, which is pages of tracebacks and Java's frames, is its `__context__`, which Python does not print.

    Raises:
        HudiError: the error raised within Spark.
        pyspark.errors.PySparkException: any other failure.
    """
    try:
        yield
    except PySparkException as error:
        found = _RAISED.findall(str(error))
        if not found:
            raise
        name, message = found[-1]
        raise _CLASSES[name](message) from None
