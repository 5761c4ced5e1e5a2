"""Reads and writes the timeline's Avro container files, which have one record each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from hudi_py.errors import CorruptFileError
from hudi_py.formats.avro import ContainerWriter, read_container

_MAGIC = b"Obj\x01"


def is_container(data: bytes) -> bool:
    """Returns whether the bytes start like an Avro object container file."""
    return data.startswith(_MAGIC)


def decode_record(data: bytes, context: str) -> dict[str, Any]:
    """Decodes the record of a container file with the schema embedded in it.

    Raises:
        CorruptFileError: the bytes are not a container file with exactly one record; the message names `context`.
    """
    try:
        if not is_container(data):
            raise CorruptFileError(f"it starts with {data[:4]!r}")
        records = read_container(data)[1]
    except CorruptFileError as error:
        raise CorruptFileError(f"Cannot read {context}: expected an Avro container file; {error}") from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptFileError(f"Cannot read {context}: it has {len(records)} Avro records; expected one")
    return records[0]


def encode_record(name: str, record: Mapping[str, Any]) -> bytes:
    """Encodes a container file with one record, in the schema that Apache Hudi 1.2.0 embeds."""
    return _writer(name).write([dict(record)])


@cache
def record_schema(name: str) -> dict[str, Any]:
    """Returns the writer schema by record name, such as `HoodieCommitMetadata`; must not be modified."""
    text = resources.files(__package__).joinpath("avsc").joinpath(f"{name}.avsc").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _writer(name: str) -> ContainerWriter:
    return ContainerWriter(record_schema(name))


class Fields:
    """Typed access to a decoded Avro or JSON record; missing fields and nulls give the default.

    Raises CorruptFileError, naming the file, if a value has another type.
    """

    __slots__ = ("_context", "_values")

    def __init__(self, values: object, context: str) -> None:
        if not isinstance(values, Mapping):
            raise CorruptFileError(f"Cannot read {context}: found {type(values).__name__}; expected a record")
        self._values = values
        self._context = context

    def _get(self, name: str, kind: type) -> Any:
        value = self._values.get(name)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise CorruptFileError(
                f"Cannot read {self._context}: field {name} is {type(value).__name__}; {kind.__name__} is expected"
            )
        return value

    def has(self, name: str) -> bool:
        """Returns whether there is a value of any type."""
        return self._values.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        value: str | None = self._get(name, str)
        return default if value is None else value

    def optional_text(self, name: str) -> str | None:
        value: str | None = self._get(name, str)
        return value

    def number(self, name: str, default: int = 0) -> int:
        value: int | None = self._get(name, int)
        return default if value is None else value

    def optional_number(self, name: str) -> int | None:
        value: int | None = self._get(name, int)
        return value

    def flag(self, name: str) -> bool:
        return bool(self._get(name, bool))

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of strings."""
        return self.optional_texts(name) or ()

    def optional_texts(self, name: str) -> tuple[str, ...] | None:
        values = self._get(name, list)
        return None if values is None else tuple(self._checked(name, value, str) for value in values)

    def text_map(self, name: str) -> dict[str, str]:
        """Returns a map of strings, without null entries."""
        return self.optional_text_map(name) or {}

    def optional_text_map(self, name: str) -> dict[str, str] | None:
        values = self._get(name, dict)
        if values is None:
            return None
        return {key: self._checked(name, value, str) for key, value in values.items() if value is not None}

    def number_map(self, name: str) -> dict[str, int]:
        values = self._get(name, dict) or {}
        return {key: self._checked(name, value, int) for key, value in values.items() if value is not None}

    def decimal_map(self, name: str) -> dict[str, float]:
        """Returns a map of floating-point numbers."""
        values = self._get(name, dict) or {}
        return {key: self._checked(name, value, float) for key, value in values.items() if value is not None}

    def texts_map(self, name: str) -> dict[str, tuple[str, ...]]:
        """Returns a map of lists of strings."""
        values = self._get(name, dict) or {}
        return {
            key: tuple(self._checked(name, item, str) for item in self._checked(name, value, list))
            for key, value in values.items()
            if value is not None
        }

    def record(self, name: str) -> Fields | None:
        value = self._get(name, dict)
        return None if value is None else Fields(value, self._context)

    def records(self, name: str) -> list[Fields]:
        return [Fields(value, self._context) for value in self._get(name, list) or ()]

    def records_map(self, name: str) -> dict[str, list[Fields]]:
        """Returns a map of lists of records."""
        values = self._get(name, dict) or {}
        return {
            key: [Fields(item, self._context) for item in self._checked(name, value, list)]
            for key, value in values.items()
            if value is not None
        }

    def record_map(self, name: str) -> dict[str, Fields]:
        values = self._get(name, dict) or {}
        return {key: Fields(value, self._context) for key, value in values.items() if value is not None}

    def _checked(self, name: str, value: Any, kind: type) -> Any:
        if not isinstance(value, kind):
            raise CorruptFileError(
                f"Cannot read {self._context}: field {name} contains {type(value).__name__}; {kind.__name__} is "
                "expected"
            )
        return value
