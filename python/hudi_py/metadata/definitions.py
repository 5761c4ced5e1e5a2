"""Index definitions of a metadata table: `.hoodie/.index_defs/index.json`.

Sources: `HoodieIndexMetadata`, `HoodieIndexDefinition` (1.2.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hudi_py.errors import CorruptFileError
from hudi_py.model.layout import INDEX_DEFINITIONS
from hudi_py.model.limits import parse_json
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage

PATH_KEY: Final = "hoodie.table.index.defs.path"
DEFINITIONS: Final = "indexDefinitions"


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """The definition of an index, as stored with the table."""

    name: str
    """Name of its partition in the metadata table."""
    function: str = ""
    source_fields: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    version: str = "V1"
    """Version of its records: `V1`, or from table version 9 on `V2` for column statistics and named indexes."""
    kind: str = ""
    """`secondary_index`, ...; if empty, the name says it."""

    @property
    def is_named(self) -> bool:
        """Returns whether the index was created by name for columns; other indexes are partitions with fixed names."""
        return self.kind not in ("", self.name)

    @classmethod
    def of_json(cls, name: str, stored: Mapping[str, Any]) -> IndexDefinition:
        """Parses the result of `to_json`; members may be absent or null. Raises TypeError or AttributeError for other
        values."""
        return cls(
            name,
            str(stored.get("indexFunction") or ""),
            tuple(map(str, stored.get("sourceFields") or ())),
            {str(key): str(value) for key, value in (stored.get("indexOptions") or {}).items()},
            str(stored.get("version") or "V1"),
            str(stored.get("indexType") or ""),
        )

    def to_json(self) -> dict[str, Any]:
        """Converts the definition to the JSON that Apache Hudi stores."""
        return {
            "indexName": self.name,
            "indexType": self.kind or self.name,
            "indexFunction": self.function,
            "sourceFields": list(self.source_fields),
            "indexOptions": dict(self.options),
            "version": self.version,
        }


def read_definitions(storage: Storage, config: TableConfig) -> dict[str, dict[str, Any]]:
    """Reads the stored definitions by index name; empty if the table has none.

    Raises:
        CorruptFileError: the file is not a JSON object.
    """
    path = definitions_path(config)
    try:
        content = parse_json(storage.read(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _corrupt_error(storage, path, f"{error}; expected JSON") from error
    value = content.get(DEFINITIONS) if isinstance(content, dict) else None
    if value is not None and not isinstance(value, dict):
        raise _corrupt_error(storage, path, f"{DEFINITIONS} is not a JSON object")
    return dict(value or {})


def index_definitions(storage: Storage, config: TableConfig) -> Sequence[IndexDefinition]:
    """Returns the table's index definitions; empty if it has none.

    Raises:
        CorruptFileError: the file with the definitions is not valid.
    """
    try:
        return [IndexDefinition.of_json(name, item) for name, item in read_definitions(storage, config).items()]
    except (TypeError, AttributeError) as error:
        raise _corrupt_error(storage, definitions_path(config), repr(error)) from error


def definitions_path(config: TableConfig) -> str:
    """Returns the path of the file with the definitions, relative to the table."""
    return config.properties.get(PATH_KEY, "").strip().strip("/") or INDEX_DEFINITIONS


def _corrupt_error(storage: Storage, path: str, why: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read the index definitions {storage.uri}/{path}: {why}")
