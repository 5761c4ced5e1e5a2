"""Thrift without generated classes: what is read is written back whole, also what is not declared."""

from __future__ import annotations

from typing import Any

import pytest

from hudi_py.interop.catalogs.hive_metastore import METHODS, NO_SUCH_OBJECT, TABLE
from hudi_py.interop.catalogs.thrift import (
    BOOL,
    LIST,
    MAP,
    SET,
    STRING,
    STRUCT,
    Raw,
    ServiceError,
    _plain_value,
    _read_value,
    _write_raw,
    call,
    of,
)

pytest.importorskip("thrift")
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer, TTransportBase

REPLY, EXCEPTION = 2, 3


class Loop(TTransportBase):  # type: ignore[misc]
    """Keeps what is sent, and has an answer ready."""

    def __init__(self, answer: bytes) -> None:
        self.sent = b""
        self._answer = TMemoryBuffer(answer)

    def write(self, data: bytes) -> None:
        self.sent += data

    def read(self, size: int) -> bytes:
        return self._answer.read(size)  # type: ignore[no-any-return]

    def flush(self) -> None:
        pass


def message(kind: int, fields: dict[int, Raw]) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin("any", kind, 1)
    _write_raw(protocol, Raw(STRUCT, fields))
    return bytes(buffer.getvalue())


def asked(method: str, answer: bytes, **arguments: Any) -> tuple[Any, bytes]:
    loop = Loop(answer)
    return call(TBinaryProtocol(loop), 1, METHODS[method], arguments), loop.sent


def text(value: str) -> Raw:
    return Raw(STRING, value.encode())


def test_what_is_not_declared_is_kept() -> None:
    unknown = {
        20: Raw(MAP, ((STRING, LIST), [(text("k"), Raw(LIST, (BOOL, [Raw(BOOL, True)])))])),
        21: Raw(SET, (STRING, [text("x")])),
        22: Raw(STRUCT, {1: Raw(10, 1 << 40), 2: Raw(4, 1.5), 3: Raw(3, 7)}),
        23: Raw(STRING, b"\xff"),
    }
    stored = Raw(STRUCT, {1: text("t"), 9: Raw(MAP, ((STRING, STRING), [(text("a"), text("b"))])), **unknown})
    table, _ = asked("get_table", message(REPLY, {0: stored}), db_name="d", tbl_name="t")
    assert table["tableName"] == "t"
    assert table["parameters"] == {"a": "b"}
    table["parameters"]["c"] = "é"
    _, sent = asked(
        "alter_table_with_environment_context",
        message(REPLY, {}),
        db_name="d",
        tbl_name="t",
        new_tbl=table,
        environment_context={"properties": {}},
    )
    protocol = TBinaryProtocol(TMemoryBuffer(sent))
    name, _, _ = protocol.readMessageBegin()
    assert name == "alter_table_with_environment_context"
    found = _plain_value(of(METHODS[name].arguments), _read_value(protocol, STRUCT))
    assert found["new_tbl"] == table
    assert set(found["new_tbl"]) - set(TABLE.fields) == {"20", "21", "22", "23"}


def test_errors_of_the_service() -> None:
    error = Raw(STRUCT, {1: text("gone")})
    with pytest.raises(ServiceError, match="NoSuchObjectException: gone") as raised:
        asked("get_table", message(REPLY, {2: error}), db_name="d", tbl_name="t")
    assert raised.value.kind == NO_SUCH_OBJECT
    with pytest.raises(ServiceError, match="no answer to get_table: Invalid method name"):
        asked("get_table", message(EXCEPTION, {1: text("Invalid method name")}), db_name="d", tbl_name="t")
    with pytest.raises(ServiceError, match="no result of get_table"):
        asked("get_table", message(REPLY, {}), db_name="d", tbl_name="t")
