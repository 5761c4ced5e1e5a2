"""Decodes delete blocks of versions 1 and 2: Java objects in Kryo's format (`SerializationUtils` of Hudi 0.5 to 0.13).

The content is one object: `HoodieKey[]` (version 1) or `DeleteRecord[]` (version 2), written by Kryo 4 with references
and without registration of these classes:

```
class       varint: 0 null; 1 by name: varint number of the name, and the name when the number is new; n + 2 registered
reference   varint: 0 null; 1 a new object, which gets the next number; n + 2 the object with number n
text        reference, then: bytes below 0x80, the last with its high bit set; or a length + 1 and CESU-8
array       class, reference, varint length + 1, items (class, reference, fields)
fields      in the order of their names: HoodieKey is partitionPath, recordKey; DeleteRecord is hoodieKey, orderingVal
```

Nothing is instantiated by name: unknown classes are an error.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from dataclasses import dataclass
from typing import Final

from hudi_py.errors import CorruptFileError, UnsupportedTableError

_KEY: Final = "org.apache.hudi.common.model.HoodieKey"
_RECORD: Final = "org.apache.hudi.common.model.DeleteRecord"
_UTF8: Final = "org.apache.avro.util.Utf8"
_REGISTERED: Final = {
    0: "int",
    1: "java.lang.String",
    2: "float",
    3: "boolean",
    4: "byte",
    5: "char",
    6: "short",
    7: "long",
    8: "double",
    10: _UTF8,  # 0.12.2 and 0.12.3
    27: _UTF8,  # 0.13: after the 17 classes of `HoodieCommonKryoRegistrar`
}
"""Class numbers: the first nine are Kryo's own, Hudi registers classes from 10 on."""
_UNREFERENCED: Final = frozenset({"int", "float", "boolean", "byte", "char", "short", "long", "double"})
_MAX_DIGITS: Final = 76
"""Maximum digits of a decimal in Arrow."""


@dataclass(frozen=True, slots=True)
class KryoDeletes:
    """Records of a delete block, in the block's order; lists of equal length."""

    keys: list[str]
    partitions: list[str | None]
    types: list[str]
    """Types of the ordering values: `null`, `int`, `long`, `float`, `double`, `boolean`, `string`, `date`, `decimal` or
    `timestamp` (UTC)."""
    values: list[object]
    """Ordering values as Python objects."""


def read_kryo_deletes(data: bytes, version: int, *, context: str) -> KryoDeletes:
    """Reads the records of a delete block of version 1 or 2.

    Args:
        data: the block's content after version and length.
        version: version of the block.
        context: file and block, for errors.

    Raises:
        CorruptFileError: the bytes are not in Kryo's format.
        UnsupportedTableError: an ordering value has an unknown class.
    """
    try:
        try:
            return _KryoReader(data, utf8_has_hash=True).deletes(version)
        except (_CorruptError, IndexError, UnicodeDecodeError):
            # Releases 0.12.0 and 0.12.1 wrote the fields of Utf8; Avro 1.9 added one
            return _KryoReader(data, utf8_has_hash=False).deletes(version)
    except _CorruptError as error:
        raise CorruptFileError(f"Cannot read deletes of {context}: {error}") from None
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"Cannot read deletes of {context}: {error}") from error
    except _UnknownClassError as error:
        raise UnsupportedTableError(
            f"Cannot read deletes of {context}: the Kryo object in a block of version {version} is of the class "
            f"{error}; compact the table with the release of Apache Hudi that wrote it"
        ) from None


class _CorruptError(Exception):
    """Describes damage."""


class _UnknownClassError(Exception):
    """Name or number of an unknown class."""


_Item = tuple[str, object]
"""A class and its value: (partition path, record key) for a `HoodieKey`, (key, ordering) for a `DeleteRecord`."""


class _KryoReader:
    """A cursor over the bytes, with the names and objects read so far."""

    def __init__(self, data: bytes, *, utf8_has_hash: bool) -> None:
        self._data = data
        self._at = 0
        self._names: list[str] = []
        self._objects: list[_Item | None] = []
        """Objects by reference number; None while an object's own fields are read."""
        self._utf8_has_hash = utf8_has_hash

    def deletes(self, version: int) -> KryoDeletes:
        """Reads everything, in a Python loop since a record's position is known only after reading the previous one."""
        item_class = _KEY if version == 1 else _RECORD
        name = self._class()
        if name != f"[L{item_class};":
            raise _CorruptError(f"an object of the class {name}, expected an array of {item_class}")
        if self._varint() != 1:
            raise _CorruptError("a reference in place of the array")
        self._objects.append(None)
        count = self._varint() - 1
        if not 0 <= count <= len(self._data) - self._at:
            raise _CorruptError(f"{count} records claimed in {len(self._data) - self._at} bytes")
        result = KryoDeletes([], [], [], [])
        size = 0
        for _ in range(count):
            record = self._object(item_class)
            ordering: _Item = ("null", None)
            if version == 2 and isinstance(record, tuple):
                record, ordering = record
            if not isinstance(record, tuple):
                raise _CorruptError("a record without a key")
            partition, text = record
            if not isinstance(text, str):
                raise _CorruptError("a record without a record key")
            # With references a few bytes can represent much text; real tables stay far below this limit
            size += len(text) + len(partition or "")
            if size > 256 * len(self._data) + (1 << 20):
                raise _CorruptError(f"more than {size} characters of keys in {len(self._data)} bytes")
            result.keys.append(text)
            result.partitions.append(partition)
            result.types.append(ordering[0])
            result.values.append(ordering[1])
        if self._at != len(self._data):
            raise _CorruptError(f"{len(self._data) - self._at} bytes after the last record")
        return result

    def _object(self, expected: str) -> object:
        """Reads the value of a record or key, preceded by its class."""
        name = self._class()
        if name != expected:
            raise _CorruptError(f"an object of the class {name}, expected {expected}")
        return self._referenced(name)

    def _referenced(self, name: str) -> object:
        """Reads an object, which may be a reference to an earlier one; None for null."""
        reference = self._varint()
        if reference == 0:
            return None
        if reference > 1:
            if reference - 2 >= len(self._objects):
                raise _CorruptError(f"a reference to object {reference - 2} of {len(self._objects)}")
            referenced = self._objects[reference - 2]
            if referenced is None or referenced[0] != name:
                raise _CorruptError(f"a reference to object {reference - 2}, which is not a {name}")
            return referenced[1]
        number = len(self._objects)
        self._objects.append(None)
        value = self._new(name)
        self._objects[number] = (name, value)
        return value

    def _new(self, name: str) -> object:
        if name == "java.lang.String":
            return self._string()
        if name == _KEY:
            partition = self._referenced("java.lang.String")
            return partition, self._referenced("java.lang.String")
        if name == _RECORD:
            key = None if self._null_class() else self._object(_KEY)
            return key, self._ordering()
        if name == _UTF8:
            return self._utf8()
        if name == "java.math.BigDecimal":
            return self._decimal()
        if name == "java.time.LocalDate":
            year, month, day = self._varint(), self._byte(), self._byte()
            try:
                return datetime.date(year, month, day)
            except (ValueError, OverflowError):
                raise _CorruptError(f"a date of year {year}, month {month}, day {day}") from None
        assert name == "java.sql.Timestamp"
        millis = self._varint(64)
        millis -= millis >> 63 << 64
        try:
            return _EPOCH + datetime.timedelta(milliseconds=millis)
        except OverflowError:
            raise _CorruptError(f"a time of {millis} milliseconds") from None

    def _ordering(self) -> _Item:
        name = self._class()
        if name is None:
            return "null", None
        if name not in _UNREFERENCED:
            if name not in _ORDERING_TYPES:
                raise _UnknownClassError(name)
            value = self._referenced(name)
            return (_ORDERING_TYPES[name], value) if value is not None else ("null", None)
        if name == "int":
            return name, _unzigzag(self._varint(32))
        if name == "long":
            return name, _unzigzag(self._varint(64))
        if name == "float":
            return name, float(struct.unpack(">f", self._take(4))[0])
        if name == "double":
            return name, float(struct.unpack(">d", self._take(8))[0])
        if name == "boolean":
            byte = self._byte()
            if byte > 1:
                raise _CorruptError(f"a boolean of {byte}")
            return name, byte == 1
        raise _UnknownClassError(name)

    def _null_class(self) -> bool:
        if self._data[self._at]:
            return False
        self._at += 1
        return True

    def _class(self) -> str | None:
        number = self._varint()
        if number == 0:
            return None
        if number > 1:
            name = _REGISTERED.get(number - 2)
            if name is None:
                raise _UnknownClassError(f"registered as number {number - 2}")
            return name
        index = self._varint()
        if index < len(self._names):
            return self._names[index]
        if index != len(self._names):
            raise _CorruptError(f"class name {index} after {len(self._names)}")
        text = self._string()
        if not text:
            raise _CorruptError("a class without a name")
        self._names.append(text)
        return text

    def _utf8(self) -> str:
        """Reads Avro's Utf8: only bytes if Hudi registered the class, otherwise its fields bytes, (hash,) length,
        string."""
        if _UTF8 in self._names:
            raw = self._bytes_field()
            if self._utf8_has_hash:
                self._varint()
            length = _unzigzag(self._varint(32))
            shown = self._referenced("java.lang.String")
            if not 0 <= length <= len(raw):
                raise _CorruptError(f"a text of {length} bytes in {len(raw)}")
            text = raw[:length].decode()
            if shown is not None and shown != text:
                raise _CorruptError("a text that differs from its bytes")
            return text
        size = self._varint() - 1
        return self._take(size).decode()

    def _bytes_field(self) -> bytes:
        reference = self._varint()
        if reference > 1:
            # Empty texts share one array
            referenced = self._objects[reference - 2] if reference - 2 < len(self._objects) else None
            if referenced is None or not isinstance(referenced[1], bytes):
                raise _CorruptError(f"a reference to object {reference - 2}, which is not bytes")
            return referenced[1]
        if reference == 0:
            raise _CorruptError("a text without bytes")
        number = len(self._objects)
        self._objects.append(None)
        raw = self._take(self._varint() - 1)
        self._objects[number] = ("[B", raw)
        return raw

    def _decimal(self) -> decimal.Decimal:
        size = self._varint() - 1
        if not 1 <= size <= 32:
            raise _CorruptError(f"a decimal of {size} bytes")
        unscaled = int.from_bytes(self._take(size), "big", signed=True)
        scale = _unzigzag(self._varint(32))
        digits = str(abs(unscaled))
        if max(len(digits), scale, len(digits) - scale) > _MAX_DIGITS:
            raise _CorruptError(f"a decimal of {len(digits)} digits and scale {scale}")
        return decimal.Decimal((int(unscaled < 0), tuple(map(int, digits)), -scale))

    def _string(self) -> str | None:
        """Reads a string (`Input.readString`)."""
        data, start = self._data, self._at
        first = data[start]
        if first < 0x80:
            end = start
            while data[end] < 0x80:
                end += 1
            self._at = end + 1
            return (data[start:end] + bytes((data[end] & 0x7F,))).decode("ascii")
        count, offset = first & 0x3F, start + 1
        if first & 0x40:
            shift = 6
            while True:
                byte = data[offset]
                offset += 1
                count |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
                if shift > 27:
                    raise _CorruptError(f"the length of a text at byte {start}")
        if count == 0:
            self._at = offset
            return None
        return self._characters(count - 1, offset)

    def _characters(self, count: int, offset: int) -> str:
        data = self._data
        if count > len(data) - offset:
            raise _CorruptError(f"a text of {count} characters in {len(data) - offset} bytes")
        end = offset + count
        if not data[offset:end].isascii():
            # `count` is in UTF-16 units of one to three bytes each
            end = offset
            for _ in range(count):
                lead = data[end]
                end += 1 if lead < 0x80 else 2 if lead < 0xE0 else 3
        self._at = end
        if end > len(data):
            raise _CorruptError(f"a text of {count} characters at byte {offset}")
        text = data[offset:end].decode("utf-8", "surrogatepass")
        return text.encode("utf-16", "surrogatepass").decode("utf-16")

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise _CorruptError(f"{count} bytes claimed, {len(self._data) - self._at} left")
        self._at += count
        return self._data[self._at - count : self._at]

    def _varint(self, bits: int = 31) -> int:
        """Reads an unsigned number, least significant 7 bits first; for 64 bits at most nine bytes, the last one
        complete."""
        value = shift = 0
        while True:
            byte = self._byte()
            if bits == 64 and shift == 56:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > (56 if bits == 64 else 28):
                raise _CorruptError(f"a number of more than five bytes before byte {self._at}")
        if value >> bits and bits < 64:
            raise _CorruptError(f"a number of {value} before byte {self._at}")
        return value


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_ORDERING_TYPES: Final = {
    "java.lang.String": "string",
    _UTF8: "string",
    "java.math.BigDecimal": "decimal",
    "java.time.LocalDate": "date",
    "java.sql.Timestamp": "timestamp",
}


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def is_default_value(kind: str, value: object) -> bool:
    """Returns whether a delete is in commit time order (`OrderingValues.getDefault`, 1.2.0)."""
    return value is None or (kind == "int" and value == 0)
