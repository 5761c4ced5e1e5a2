"""Makes, completes or removes the whole metadata table, as Apache Hudi's procedures do (`CreateMetadataTableProcedure`,
`InitMetadataTableProcedure`, `DeleteMetadataTableProcedure`, 1.2.0)."""

from __future__ import annotations

from hudi_py.errors import ConfigError
from hudi_py.metadata.table import FILES
from hudi_py.metadata_write.maintenance.rebuild import drop, rebuild
from hudi_py.metadata_write.partitions.registry import wanted_partitions
from hudi_py.services.context import ServiceContext


def change_metadata_table(context: ServiceContext, action: str) -> tuple[str, ...]:
    """`make`: builds a metadata table with the partitions that the options ask for. `complete`: builds those that the
    metadata table lacks. `remove`: drops it with all indexes; nothing to drop is no error.

    Returns:
        The partitions that were made or dropped.

    Raises:
        ConfigError: there is a metadata table already (`make`), there is none (`complete`), or the options disable it.
        ConflictError, CorruptFileError, LockError: as `rebuild` and `drop`.
    """
    config, uri = context.config(), context.storage.uri
    there = {*config.metadata_partitions, *config.metadata_partitions_to_make}
    if action == "remove":
        return drop(context, sorted({*there, FILES})) if there else ()
    if action == "make" and there:
        raise ConfigError(
            f"Cannot create the metadata table of {uri}: it exists, with {', '.join(sorted(there))}; CALL "
            "init_metadata_table adds partitions that it lacks, CALL delete_metadata_table removes it"
        )
    if action == "complete" and FILES not in there:
        raise ConfigError(
            f"Cannot open the metadata table of {uri}: there is none; CALL create_metadata_table makes one"
        )
    wanted = wanted_partitions(context.options, config)
    if not wanted:
        raise ConfigError(
            f"Cannot make the metadata table of {uri}: hoodie.metadata.enable is false; set it to true, or leave it out"
        )
    missing = [name for name in wanted if name not in config.metadata_partitions]
    return rebuild(context, missing) if missing else ()
