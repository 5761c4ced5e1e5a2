"""Calls a Thrift service whose structs are declared as data.

Apache's `thrift` package provides transport and protocol; its compiler is not needed. A struct is read with all of its
fields, including fields of newer servers that are not declared here, and written back with them: a table that is
fetched, changed and stored keeps what hudi-py does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hudi_py.errors import HudiError

BOOL: Final = 2
I16: Final = 6
I32: Final = 8
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15
"""Thrift's type codes (`TType`)."""
_CALL: Final = 1
_EXCEPTION: Final = 3
_SCALARS: Final = {
    BOOL: "Bool",
    3: "Byte",
    4: "Double",
    I16: "I16",
    I32: "I32",
    10: "I64",
    STRING: "Binary",  # as bytes: not everything that a server stores is UTF-8
}


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its code, and the types within a container or struct."""

    code: int
    of: tuple[Type, ...] = ()
    """The element type of a list, or the key and value types of a map."""
    struct: Struct | None = None


@dataclass(frozen=True, slots=True)
class Struct:
    """The used fields of a struct: number and type by name."""

    name: str
    fields: Mapping[str, tuple[int, Type]]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service: arguments in the order of their numbers, result, and errors by number."""

    name: str
    arguments: Struct
    returns: Type | None = None
    errors: Mapping[int, str] = field(default_factory=dict)


TEXT: Final = Type(STRING)
FLAG: Final = Type(BOOL)
NUMBER: Final = Type(I32)
SHORT: Final = Type(I16)
TEXTS: Final = Type(LIST, (TEXT,))
TEXT_MAP: Final = Type(MAP, (TEXT, TEXT))

Values = dict[str, Any]
"""A struct by field names. Undeclared fields are `Raw` values under their number."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A value as read, with the codes of its types."""

    code: int
    value: Any
    """Bytes for text; for containers, codes and list of their elements; for structs, values by number."""


class ServiceError(HudiError):
    """The service answered with an error that its interface declares."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}" if message else kind)
        self.kind = kind


def struct(name: str, *fields: tuple[int, str, Type]) -> Struct:
    return Struct(name, {label: (number, kind) for number, label, kind in fields})


def of(declared: Struct) -> Type:
    return Type(STRUCT, struct=declared)


def list_of(element: Type) -> Type:
    return Type(LIST, (element,))


def method(name: str, *arguments: tuple[str, Type], returns: Type | None = None, errors: Sequence[str] = ()) -> Method:
    """Declares a method whose arguments and errors are numbered from 1."""
    numbered = [(number, label, kind) for number, (label, kind) in enumerate(arguments, 1)]
    return Method(name, struct(f"{name}_args", *numbered), returns, dict(enumerate(errors, 1)))


def call(protocol: Any, sequence: int, chosen: Method, arguments: Values) -> Any:
    """Calls a method and returns its result as Python values.

    Args:
        protocol: a protocol of `thrift`, whose transport is open.

    Raises:
        ServiceError: an error that the method declares, or that the server does not have the method.
        thrift.Thrift.TException: the connection or the protocol failed.
    """
    protocol.writeMessageBegin(chosen.name, _CALL, sequence)
    _write_value(protocol, of(chosen.arguments), arguments)
    protocol.writeMessageEnd()
    protocol.trans.flush()
    _, kind, _ = protocol.readMessageBegin()
    answer = _read_value(protocol, STRUCT).value
    protocol.readMessageEnd()
    if kind == _EXCEPTION:
        raise ServiceError(f"no answer to {chosen.name}", _raw_text(answer.get(1)))
    for number, raw in answer.items():
        if number in chosen.errors:
            raise ServiceError(chosen.errors[number], _raw_text(raw.value.get(1)))
    if chosen.returns is None:
        return None
    if 0 not in answer:
        raise ServiceError(f"no result of {chosen.name}", "")
    return _plain_value(chosen.returns, answer[0])


def _raw_text(raw: Raw | None) -> str:
    return raw.value.decode("utf-8", "replace") if raw is not None and raw.code == STRING else ""


def _read_value(protocol: Any, code: int) -> Raw:
    if code in _SCALARS:
        return Raw(code, getattr(protocol, f"read{_SCALARS[code]}")())
    if code == STRUCT:
        result: dict[int, Raw] = {}
        protocol.readStructBegin()
        while True:
            _, kind, number = protocol.readFieldBegin()
            if kind == 0:
                break
            result[number] = _read_value(protocol, kind)
            protocol.readFieldEnd()
        protocol.readStructEnd()
        return Raw(code, result)
    if code == MAP:
        key, value, size = protocol.readMapBegin()
        pairs = [(_read_value(protocol, key), _read_value(protocol, value)) for _ in range(size)]
        protocol.readMapEnd()
        return Raw(code, ((key, value), pairs))
    name = "Set" if code == SET else "List"
    element, size = getattr(protocol, f"read{name}Begin")()
    items = [_read_value(protocol, element) for _ in range(size)]
    getattr(protocol, f"read{name}End")()
    return Raw(code, (element, items))


def _plain_value(kind: Type, raw: Raw) -> Any:
    """Converts a value of a declared type to Python."""
    if kind.code != raw.code:
        return raw
    if kind.struct is not None:
        names = {number: (name, item) for name, (number, item) in kind.struct.fields.items()}
        result: dict[str, Any] = {}
        for number, value in raw.value.items():
            name, element = names.get(number, (str(number), None))
            result[name] = value if element is None else _plain_value(element, value)
        return result
    if kind.code == LIST:
        return [_plain_value(kind.of[0], item) for item in raw.value[1]]
    if kind.code == MAP:
        return {_plain_value(kind.of[0], key): _plain_value(kind.of[1], value) for key, value in raw.value[1]}
    return _raw_text(raw) if kind.code == STRING else raw.value


def _write_value(protocol: Any, kind: Type, value: Any) -> None:
    if isinstance(value, Raw):
        _write_raw(protocol, value)
    elif kind.struct is not None:
        protocol.writeStructBegin(kind.struct.name)
        for name, element in value.items():
            if element is None:
                continue
            number, declared = kind.struct.fields[name] if name in kind.struct.fields else (int(name), None)
            code = element.code if isinstance(element, Raw) else declared.code if declared is not None else 0
            protocol.writeFieldBegin(name, code, number)
            _write_value(protocol, declared or Type(code), element)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif kind.code == LIST:
        protocol.writeListBegin(kind.of[0].code, len(value))
        for item in value:
            _write_value(protocol, kind.of[0], item)
        protocol.writeListEnd()
    elif kind.code == MAP:
        protocol.writeMapBegin(kind.of[0].code, kind.of[1].code, len(value))
        for key, item in value.items():
            _write_value(protocol, kind.of[0], key)
            _write_value(protocol, kind.of[1], item)
        protocol.writeMapEnd()
    elif kind.code == STRING:
        protocol.writeBinary(value.encode("utf-8"))
    else:
        getattr(protocol, f"write{_SCALARS[kind.code]}")(value)


def _write_raw(protocol: Any, raw: Raw) -> None:
    if raw.code in _SCALARS:
        getattr(protocol, f"write{_SCALARS[raw.code]}")(raw.value)
    elif raw.code == STRUCT:
        protocol.writeStructBegin("")
        for number, value in raw.value.items():
            protocol.writeFieldBegin("", value.code, number)
            _write_raw(protocol, value)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
    elif raw.code == MAP:
        (key, item), pairs = raw.value
        protocol.writeMapBegin(key, item, len(pairs))
        for pair in pairs:
            _write_raw(protocol, pair[0])
            _write_raw(protocol, pair[1])
        protocol.writeMapEnd()
    else:
        name, (element, items) = "Set" if raw.code == SET else "List", raw.value
        getattr(protocol, f"write{name}Begin")(element, len(items))
        for item in items:
            _write_raw(protocol, item)
        getattr(protocol, f"write{name}End")()
