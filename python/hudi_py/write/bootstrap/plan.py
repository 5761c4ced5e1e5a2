"""Plans a bootstrap: the mode and partition of each file of the source, and the table's schema.

Sources: `BootstrapModeSelector` and its classes, `BootstrapPartitionPathTranslator`, `HoodieBootstrapSchemaProvider`
(Apache Hudi 1.2.0), which takes the schema of one file. Here it is that of all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.config import Options
from hudi_py.config import bootstrap as bootstrap_config
from hudi_py.config import table as table_config
from hudi_py.config import write as write_config
from hudi_py.errors import ConfigError, SchemaMismatchError, UnsupportedTableError, first_line
from hudi_py.model.names import PartitionPath
from hudi_py.model.properties import TableConfig
from hudi_py.schema import conform
from hudi_py.view.bootstrap import BASE_PATH
from hudi_py.write.bootstrap.source import OriginalFile, Source, named_parts, positional_parts
from hudi_py.write.rows.input import normalise_batch, normalise_schema
from hudi_py.write.rows.keygen import KeyGenerator, key_generator
from hudi_py.write.settings import new_table_schema
from hudi_py.write.table.evolution import EvolutionRules, WriteSchema, write_schema
from hudi_py.write.table.properties import table_properties

_INDEX_CLASS = "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that gets a skeleton."""

    file: OriginalFile
    partition: PartitionPath


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """The plan for a source."""

    source: Source
    options: Options
    """The options of the table and of its writes."""
    schema: WriteSchema
    skeletons: tuple[PlannedFile, ...]
    """The files whose rows stay where they are."""
    copied: tuple[OriginalFile, ...]
    """The files whose rows are copied."""
    positional: bool
    """Whether partition columns have the texts of folders that do not name them."""

    @classmethod
    def of(cls, source: Source, options: Options) -> BootstrapPlan:
        """Plans a bootstrap.

        Args:
            options: options of the new table, including its name.

        Raises:
            ConfigError: options contradict each other or the source.
            SchemaMismatchError: files of the source do not go together, or have columns that no table has.
            UnsupportedTableError: the table could not be written, or its skeletons not be read.
        """
        options = _with_format(_with_keygen(options), source)
        modes = _folder_modes(source.folders, options)
        skeletons = [file for file in source.files if modes[file.folder] == bootstrap_config.METADATA_ONLY]
        copied = tuple(file for file in source.files if modes[file.folder] != bootstrap_config.METADATA_ONLY)
        planned = TableConfig(table_properties(options))
        if skeletons:
            _check_skeletons(planned, options)
        schema, positional = _plan_schema(source, planned, options, named_only=bool(skeletons))
        options = _with_path_style(source, skeletons or copied, planned, schema, options, refuse=bool(skeletons))
        decoded = options.get(bootstrap_config.TRANSLATOR) == bootstrap_config.DECODED_TRANSLATOR
        return cls(
            source,
            options,
            schema,
            tuple(PlannedFile(file, _translate_folder(file.folder, decoded)) for file in skeletons),
            copied,
            positional,
        )

    @property
    def properties(self) -> dict[str, str]:
        """Returns the table's properties that bootstraps add."""
        version = self.options.get(table_config.TABLE_VERSION)
        index = {"hoodie.bootstrap.index.type": "HFILE"}
        if version < 8:
            index = {"hoodie.bootstrap.index.class": _INDEX_CLASS}
        return {BASE_PATH: self.source.base, **index}

    def copied_rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the files that are copied, in the table's types. Raises as `OriginalFile.batches`, and
        SchemaMismatchError for a value that the table's type cannot hold."""
        fields = self.options.get(table_config.PARTITION_PATH)
        for file in self.copied:
            texts = positional_parts(file.folder, fields) if self.positional else {}
            for batch in file.batches(self.schema.arrow):
                try:
                    own = normalise_batch(batch, normalise_schema(batch.schema))
                    rows = self.schema.conform(_with_texts(own, texts, self.schema.arrow))
                except SchemaMismatchError as error:
                    raise SchemaMismatchError(f"Cannot bootstrap from {file.uri}: {first_line(error)}") from error
                yield rows


def _with_texts(batch: pa.RecordBatch, texts: Mapping[str, str | None], schema: pa.Schema) -> pa.RecordBatch:
    for name, text in texts.items():
        if name not in batch.schema.names:
            field = schema.field(name)
            batch = batch.append_column(field, pa.repeat(pa.scalar(text, field.type), batch.num_rows))
    return batch


def _with_keygen(options: Options) -> Options:
    """Returns the options with the key generator that those of the bootstrap name."""
    pairs = (
        (bootstrap_config.BOOTSTRAP_KEYGEN_CLASS, table_config.KEYGEN_CLASS),
        (bootstrap_config.BOOTSTRAP_KEYGEN_TYPE, table_config.KEYGEN_TYPE),
    )
    for own, option in pairs:
        asked, known = options.get(own), options.get(option)
        if asked and known and asked != known:
            raise ConfigError(
                f"Cannot bootstrap with {own.key}={asked} and {option.key}={known}: rows that are written later would "
                "get other keys; give the same, or one of them"
            )
        if asked:
            options = options.replace({option: asked})
    return options


def _with_format(options: Options, source: Source) -> Options:
    """Returns the options with the format of the source's files, which skeletons have too."""
    extension, option = source.extension.upper(), table_config.BASE_FILE_FORMAT
    if options.given(option) and options.get(option) != extension:
        raise ConfigError(
            f"Cannot bootstrap from {source.base} with {options.name_of(option)}={options.get(option)}: its files are "
            f"{extension}, and those of the table have the same format; leave the option out"
        )
    return options.replace({option: extension})


def _folder_modes(folders: Sequence[str], options: Options) -> dict[str, str]:
    """Returns the mode of each folder of the source."""
    selector = options.get(bootstrap_config.SELECTOR)
    if selector != bootstrap_config.REGEX_SELECTOR:
        every = selector == bootstrap_config.METADATA_SELECTOR
        return dict.fromkeys(folders, bootstrap_config.METADATA_ONLY if every else bootstrap_config.FULL_RECORD)
    text, matching = options.get(bootstrap_config.REGEX), options.get(bootstrap_config.REGEX_MODE)
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"Cannot bootstrap with {bootstrap_config.REGEX.key}={text!r}: it is not a regular expression ({error})"
        ) from None
    both = (bootstrap_config.METADATA_ONLY, bootstrap_config.FULL_RECORD)
    other = both[0] if matching == both[1] else both[1]
    return {folder: matching if pattern.fullmatch(folder) else other for folder in folders}


def _check_skeletons(config: TableConfig, options: Options) -> None:
    """Refuses tables whose files cannot be skeletons."""
    wrong = None
    if not options.get(table_config.RECORD_KEY):
        wrong = f"without {table_config.RECORD_KEY.key}: files of the source have no keys that are generated"
    elif not options.get(table_config.META_FIELDS):
        wrong = f"with {table_config.META_FIELDS.key}=false: the files of the table have nothing but meta columns"
    elif config.drops_partition_columns:
        wrong = f"with {table_config.DROP_PARTITION_COLUMNS.key}=true: files of the source stay as they are"
    elif options.get(write_config.INDEX_TYPE) == "BUCKET":
        wrong = f"with {write_config.INDEX_TYPE.key}=BUCKET: a file of the source has keys of several buckets"
    if wrong is not None:
        raise UnsupportedTableError(
            f"Cannot bootstrap METADATA_ONLY {wrong}; leave it as it is by default, or bootstrap FULL_RECORD"
        )


@dataclass(frozen=True, slots=True)
class _FileColumns:
    """A file, and the columns that it and others with the same columns have."""

    file: OriginalFile
    found: pa.Schema
    """As they are in the file."""
    own: pa.Schema
    """In the types of a table, without those of nulls only that have a type in another file."""


@contextmanager
def _naming_file(file: OriginalFile) -> Iterator[None]:
    try:
        yield
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"Cannot bootstrap from {file.uri}: {first_line(error)}") from error


def _plan_schema(
    source: Source, config: TableConfig, options: Options, *, named_only: bool
) -> tuple[WriteSchema, bool]:
    """Returns the table's schema, and whether partition columns get the texts of folders that do not name them.

    Columns that only folders name are text, as in Apache Hudi.

    Args:
        named_only: whether only folders that name columns give values.
    """
    files = _columns_of_files(source)
    stored = {field.name: field.type for each in files for field in each.own}
    names, positional = _folder_columns(source, config, stored, named_only=named_only)
    of_folders = [pa.field(name, stored.get(name, pa.string())) for name in names]
    schema: WriteSchema | None = None
    for each in files:
        with _naming_file(each.file):
            incoming = pa.schema([*each.own, *(field for field in of_folders if field.name not in each.own.names)])
            if schema is None:
                schema = new_table_schema(config, incoming, options)
            else:
                rules = EvolutionRules((*config.record_key_fields, *config.partition_fields), set_null=True)
                schema = write_schema(schema.avro, incoming, config.name, rules)
            _check_alike(each.own, schema.arrow)
            normalise_schema(schema.arrow)
    assert schema is not None
    for each in files if named_only else ():
        _check_in_place(source, each, schema)
    return schema, positional


def _columns_of_files(source: Source) -> list[_FileColumns]:
    """Returns the different columns of the files of a source, each with the first file that has them."""
    files: list[_FileColumns] = []
    for file, found in source.schemas():
        with _naming_file(file):
            files.append(_FileColumns(file, found, normalise_schema(found)))
    typed = {field.name for each in files for field in each.own if not pa.types.is_null(field.type)}
    return [
        replace(
            each,
            own=pa.schema([item for item in each.own if not (pa.types.is_null(item.type) and item.name in typed)]),
        )
        for each in files
    ]


def _folder_columns(
    source: Source, config: TableConfig, stored: Collection[str], *, named_only: bool
) -> tuple[list[str], bool]:
    """Returns the columns that have values of folders, and whether those of folders that do not name them are among
    these, see `_plan_schema`. `stored`: the columns in files."""
    fields, folders = config.partition_fields, source.folders
    named = [name for name in named_parts(folders[0]) if all(name in named_parts(folder) for folder in folders)]
    absent = [name for name in fields if name not in stored and name not in named and "." not in name]
    if not absent:
        return named, False
    if named_only or not all(positional_parts(folder, fields) for folder in folders):
        raise ConfigError(
            f"Cannot bootstrap from {source.base} with the partition column '{absent[0]}': it is neither in the files "
            f"nor named by their folders, such as {folders[0] or 'the folder itself'} ({absent[0]}=...); choose other "
            "partition columns, or bootstrap FULL_RECORD, which takes values of folders such as 2026/01 as well"
        )
    return [*absent, *named], True


def _check_in_place(source: Source, columns: _FileColumns, schema: WriteSchema) -> None:
    """Refuses columns that cannot be read in the types of the table where they are."""
    found = columns.found
    try:
        if source.extension == "parquet":
            _check_readable(found)
        conform(_empty_batch(found), pa.schema([field for field in schema.arrow if field.name in found.names]))
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"Cannot bootstrap {columns.file.uri} METADATA_ONLY: {first_line(error)}; bootstrap it FULL_RECORD, which "
            "converts values"
        ) from error


def _check_readable(schema: pa.Schema) -> None:
    """Refuses columns that Spark's Parquet reader, and with it Apache Hudi, cannot read where they are."""

    def check(field: pa.Field, path: str) -> None:
        kind = field.type
        if pa.types.is_float16(kind) or pa.types.is_null(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
            raise SchemaMismatchError(f"Column '{path}' is {kind}, which Apache Hudi does not read from files")
        for index in range(kind.num_fields):
            check(kind.field(index), f"{path}.{kind.field(index).name}")

    for field in schema:
        check(field, field.name)


def _check_alike(own: pa.Schema, table: pa.Schema) -> None:
    """Refuses a column of a file whose numbers would become text, or the like: values are only widened."""
    for field in own:
        kind = table.field(field.name).type
        if not field.type.equals(kind) and pa.types.is_string(kind):
            raise SchemaMismatchError(
                f"Column '{field.name}' is {field.type} in it, and {kind} in others; files of a table have one "
                "type, or narrower and wider numbers"
            )


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _with_path_style(
    source: Source,
    files: Sequence[OriginalFile],
    config: TableConfig,
    schema: WriteSchema,
    options: Options,
    *,
    refuse: bool,
) -> Options:
    """Returns the options with the style of partition paths that matches the folders of the source, because later
    writes must find the rows' keys there. Apache Hudi leaves that to the options.

    Args:
        refuse: whether it is an error that there is none.
    """
    if not config.partition_fields:
        nested = next((file.folder for file in files if file.folder), None)
        if nested is not None and refuse:
            raise ConfigError(
                f"Cannot bootstrap from {source.base} without partition columns: it has the folder {nested}; set "
                f"{table_config.PARTITION_PATH.key}"
            )
        return options
    samples = list(_sample_rows(files, schema, config))
    decoded = options.get(bootstrap_config.TRANSLATOR) == bootstrap_config.DECODED_TRANSLATOR
    hive, encoded = table_config.HIVE_STYLE, table_config.URL_ENCODE
    choices = [(options.get(option),) if options.given(option) else (False, True) for option in (hive, encoded)]
    wrong = ""
    for style in product(*choices):
        asked = options.replace({hive: str(style[0]).lower(), encoded: str(style[1]).lower()})
        keygen = key_generator(TableConfig(table_properties(asked)), schema.avro, options=asked)
        wrong = _path_difference(samples, keygen, decoded)
        if not wrong:
            return asked
    if refuse:
        raise ConfigError(
            f"Cannot bootstrap from {source.base} with the partition columns {','.join(config.partition_fields)}: "
            f"{wrong}; later writes would not find the rows; give the partition columns whose values the folders have, "
            f"leave {hive.key} and {encoded.key} out, or bootstrap FULL_RECORD"
        )
    return options


def _sample_rows(
    files: Sequence[OriginalFile], schema: WriteSchema, config: TableConfig
) -> Iterator[tuple[OriginalFile, pa.RecordBatch]]:
    """Yields a row of each folder, with the partition columns."""
    names = key_generator(config, schema.avro).partition_columns(schema.arrow)
    seen: set[str] = set()
    for file in files:
        if file.folder in seen:
            continue
        for batch in file.batches(schema.arrow, names, batch_rows=1):
            if batch.num_rows:
                seen.add(file.folder)
                yield file, schema.conform_some(batch.slice(0, 1), names)
                break


def _path_difference(
    samples: Sequence[tuple[OriginalFile, pa.RecordBatch]], keygen: KeyGenerator, decoded: bool
) -> str:
    """Returns how the paths of rows differ from where they are; empty if they do not."""
    for file, row in samples:
        try:
            path = keygen.partition_paths(row)[0].as_py()
        except (ConfigError, SchemaMismatchError) as error:
            return first_line(error)
        if path != _translate_folder(file.folder, decoded):
            return f"a row of {file.info.path} belongs to the partition '{path}'"
    return ""


def _translate_folder(folder: str, decoded: bool) -> PartitionPath:
    """Returns the partition of a folder of the source."""
    return PartitionPath(unquote(folder) if decoded else folder)
