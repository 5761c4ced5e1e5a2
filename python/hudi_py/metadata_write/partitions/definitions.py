"""Stores the definitions of a table's indexes.

Sources: `HoodieIndexMetadata`, `HoodieIndexDefinition`, `HoodieTableMetaClient.buildIndexDefinition`,
`HoodieTableMetadataUtil.createRecordIndexDefinition`, `HoodieIndexVersion` (1.2.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hudi_py.metadata.definitions import DEFINITIONS, PATH_KEY, IndexDefinition, definitions_path, read_definitions
from hudi_py.model.layout import INDEX_DEFINITIONS
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.properties import update_table_config


def put_definition(storage: Storage, config: TableConfig, definition: IndexDefinition) -> TableConfig:
    """Stores a definition, replacing an earlier one of that name but keeping its version. The table lock must be held.

    Returns:
        The properties, which name the definitions file once there is a definition.
    """
    there = read_definitions(storage, config)
    before = there.get(definition.name)
    after = _over(before, definition)
    if before != after:
        _write(storage, config, {**there, definition.name: after})
    if PATH_KEY not in config.properties:
        config = update_table_config(storage, {PATH_KEY: INDEX_DEFINITIONS})
    return config


def put_definitions(storage: Storage, config: TableConfig, definitions: Mapping[str, Mapping[str, Any]]) -> None:
    """Stores definitions again that were read before. The table lock must be held."""
    there = read_definitions(storage, config)
    if any(there.get(name) != each for name, each in definitions.items()):
        _write(storage, config, {**there, **definitions})


def is_stored(definitions: Mapping[str, Mapping[str, Any]], config: TableConfig, definition: IndexDefinition) -> bool:
    """Whether `put_definition` would change nothing in a table with these definitions."""
    before = definitions.get(definition.name)
    return PATH_KEY in config.properties and before is not None and before == _over(before, definition)


def drop_definitions(storage: Storage, config: TableConfig, names: Iterable[str]) -> None:
    """Deletes the definitions of some indexes. The table lock must be held."""
    there = read_definitions(storage, config)
    gone = set(names) & set(there)
    if gone:
        _write(storage, config, {name: value for name, value in there.items() if name not in gone})


def version_of(definitions: Mapping[str, Mapping[str, Any]], name: str, config: TableConfig) -> str:
    """`V1` or `V2`: the version of an index's records as defined, or else as a new definition would set it."""
    found = definitions.get(name)
    if found is not None:
        return str(found.get("version") or "V1")
    return f"V{config.index_version}"


def source_fields(definitions: Mapping[str, Mapping[str, Any]], name: str) -> Sequence[str] | None:
    """Columns of an index; None if it is not defined."""
    found = definitions.get(name)
    return None if found is None else columns_of(found)


def columns_of(definition: Mapping[str, Any]) -> Sequence[str]:
    """Columns in a stored definition."""
    return [str(each) for each in definition.get("sourceFields") or ()]


def _over(before: Mapping[str, Any] | None, definition: IndexDefinition) -> dict[str, Any]:
    after = definition.to_json()
    if before is not None and before.get("version"):
        after["version"] = before["version"]
    return after


def _write(storage: Storage, config: TableConfig, definitions: Mapping[str, Any]) -> None:
    content = json.dumps({DEFINITIONS: definitions}, separators=(",", ":"), ensure_ascii=False)
    storage.put(definitions_path(config), content.encode())
