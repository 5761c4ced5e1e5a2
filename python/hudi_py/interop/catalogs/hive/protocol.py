"""The part of the Hive metastore's Thrift interface that registering tables needs (`hive_metastore.thrift` of Hive 2.3,
which later releases understand)."""

from __future__ import annotations

from typing import Final

from hudi_py.interop.catalogs.hive.thrift import (
    FLAG,
    NUMBER,
    SHORT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Method,
    Struct,
    list_of,
    method,
    of,
    struct,
)

ALREADY_EXISTS: Final = "AlreadyExistsException"
NO_SUCH_OBJECT: Final = "NoSuchObjectException"
_INVALID_OBJECT: Final = "InvalidObjectException"
_INVALID_OPERATION: Final = "InvalidOperationException"
_META: Final = "MetaException"

FIELD: Final = struct("FieldSchema", (1, "name", TEXT), (2, "type", TEXT), (3, "comment", TEXT))
_ORDER: Final = struct("Order", (1, "col", TEXT), (2, "order", NUMBER))
_SERDE: Final = struct("SerDeInfo", (1, "name", TEXT), (2, "serializationLib", TEXT), (3, "parameters", TEXT_MAP))
_STORAGE: Final = struct(
    "StorageDescriptor",
    (1, "cols", list_of(of(FIELD))),
    (2, "location", TEXT),
    (3, "inputFormat", TEXT),
    (4, "outputFormat", TEXT),
    (5, "compressed", FLAG),
    (6, "numBuckets", NUMBER),
    (7, "serdeInfo", of(_SERDE)),
    (8, "bucketCols", TEXTS),
    (9, "sortCols", list_of(of(_ORDER))),
    (10, "parameters", TEXT_MAP),
)
TABLE: Final = struct(
    "Table",
    (1, "tableName", TEXT),
    (2, "dbName", TEXT),
    (3, "owner", TEXT),
    (4, "createTime", NUMBER),
    (5, "lastAccessTime", NUMBER),
    (6, "retention", NUMBER),
    (7, "sd", of(_STORAGE)),
    (8, "partitionKeys", list_of(of(FIELD))),
    (9, "parameters", TEXT_MAP),
    (12, "tableType", TEXT),
)
PARTITION: Final = struct(
    "Partition",
    (1, "values", TEXTS),
    (2, "dbName", TEXT),
    (3, "tableName", TEXT),
    (4, "createTime", NUMBER),
    (5, "lastAccessTime", NUMBER),
    (6, "sd", of(_STORAGE)),
    (7, "parameters", TEXT_MAP),
)
_DATABASE: Final = struct(
    "Database", (1, "name", TEXT), (2, "description", TEXT), (3, "locationUri", TEXT), (4, "parameters", TEXT_MAP)
)
_CONTEXT: Final = struct("EnvironmentContext", (1, "properties", TEXT_MAP))
_NEW_PARTITIONS: Final = struct(
    "AddPartitionsRequest",
    (1, "dbName", TEXT),
    (2, "tblName", TEXT),
    (3, "parts", list_of(of(PARTITION))),
    (4, "ifNotExists", FLAG),
    (5, "needResult", FLAG),
)
_ADDED: Final = struct("AddPartitionsResult", (1, "partitions", list_of(of(PARTITION))))
_NAMED: Final = (("db_name", TEXT), ("tbl_name", TEXT))

METHODS: Final[dict[str, Method]] = {
    each.name: each
    for each in (
        method("set_ugi", ("user_name", TEXT), ("group_names", TEXTS), returns=TEXTS, errors=(_META,)),
        method("get_database", ("name", TEXT), returns=of(_DATABASE), errors=(NO_SUCH_OBJECT, _META)),
        method("create_database", ("database", of(_DATABASE)), errors=(ALREADY_EXISTS, _INVALID_OBJECT, _META)),
        method("get_table", *_NAMED, returns=of(TABLE), errors=(_META, NO_SUCH_OBJECT)),
        method("create_table", ("tbl", of(TABLE)), errors=(ALREADY_EXISTS, _INVALID_OBJECT, _META, NO_SUCH_OBJECT)),
        method(
            "alter_table_with_environment_context",
            *_NAMED,
            ("new_tbl", of(TABLE)),
            ("environment_context", of(_CONTEXT)),
            errors=(_INVALID_OPERATION, _META),
        ),
        method("drop_table", *_NAMED, ("deleteData", FLAG), errors=(NO_SUCH_OBJECT, _META)),
        method(
            "get_partitions",
            *_NAMED,
            ("max_parts", SHORT),
            returns=list_of(of(PARTITION)),
            errors=(NO_SUCH_OBJECT, _META),
        ),
        method(
            "get_partitions_by_names",
            *_NAMED,
            ("names", TEXTS),
            returns=list_of(of(PARTITION)),
            errors=(_META, NO_SUCH_OBJECT),
        ),
        method(
            "add_partitions_req",
            ("request", of(_NEW_PARTITIONS)),
            returns=of(_ADDED),
            errors=(_INVALID_OBJECT, ALREADY_EXISTS, _META),
        ),
        method(
            "alter_partitions",
            *_NAMED,
            ("new_parts", list_of(of(PARTITION))),
            errors=(_INVALID_OPERATION, _META),
        ),
        method(
            "drop_partition",
            *_NAMED,
            ("part_vals", TEXTS),
            ("deleteData", FLAG),
            returns=FLAG,
            errors=(NO_SUCH_OBJECT, _META),
        ),
    )
}
"""The methods by name."""

__all__ = ["ALREADY_EXISTS", "FIELD", "METHODS", "NO_SUCH_OBJECT", "PARTITION", "TABLE", "Method", "Struct"]
