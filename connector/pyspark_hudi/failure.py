"""Raises errors of hudi-py from Spark's processes in the caller, with their own class."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException

from hudi_py import errors
from hudi_py.errors import HudiError

_CLASSES: Final = {
    name: item for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, HudiError)
}
_RAISED: Final = re.compile(rf"(?:^\s*|: ){re.escape(errors.__name__)}\.({'|'.join(_CLASSES)}): (\S.*)$", re.MULTILINE)
"""The last line of a traceback. If Spark hides tracebacks, its own text precedes the error on that line."""
_FIELDS: Final = re.compile(r"^\s*\[fields of the error: ([\w+/=]+)\]$", re.MULTILINE)
"""The fields that `carried` adds to the message."""


@contextmanager
def carried() -> Iterator[None]:
    """Adds the fields of an error, raised in a task, to its message, so that `raised_here` can restore them from
    Spark's text."""
    try:
        yield
    except HudiError as error:
        if error.fields:
            fields = base64.b64encode(json.dumps(error.fields, default=str).encode()).decode()
            error.args = (f"{error}\n[fields of the error: {fields}]", *error.args[1:])
        raise


@contextmanager
def raised_here() -> Iterator[None]:
    """Raises an error of hudi-py from within Spark as the same class with the same message, and the fields from
    `carried`.

    Spark's error, which is pages of tracebacks and Java's frames, is its `__context__`, which Python does not print.

    Raises:
        HudiError: the error raised within Spark.
        pyspark.errors.PySparkException: any other failure.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error)
        match = list(_RAISED.finditer(text))
        if not match:
            raise
        name, message = match[-1].groups()
        fields = _FIELDS.match(text, match[-1].end() + 1)
        known = json.loads(base64.b64decode(fields[1])) if fields else {}
        raise _CLASSES[name](message, **known) from None
