"""The files from which a table is created, and their rows (`BootstrapUtils`, Apache Hudi 1.2.0).

Apache Hudi takes the files of the deepest folders and ignores others. Here, files at several levels and files of other
formats are refused. Names that begin with `.` or `_` are hidden, as in Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa

from hudi_py.errors import ConfigError, UnsupportedTableError
from hudi_py.formats.base.files import extension_of, iter_base_batches, read_footer
from hudi_py.model.layout import META_FOLDER
from hudi_py.model.names import NULL_PARTITION
from hudi_py.read.slices.base_file import folder_values
from hudi_py.schema import META_FIELDS
from hudi_py.storage import FileInfo, Storage, hadoop_uri
from hudi_py.storage.threads import in_threads
from hudi_py.storage.tree import list_folders

FORMATS = ("parquet", "orc")


@dataclass(frozen=True)
class OriginalFile:
    """A file of the source."""

    source: Source
    info: FileInfo

    @cached_property
    def uri(self) -> str:
        """Returns its URI as Apache Hudi's index names it: with a scheme, and nothing of it encoded."""
        return f"{self.source.uri}/{self.info.path}"

    @property
    def folder(self) -> str:
        """Returns the path of its folder below that of the source."""
        return self.info.path.rpartition("/")[0]

    def schema(self) -> pa.Schema:
        """Returns the columns in the file. Raises CorruptFileError."""
        return read_footer(self.source.storage, self.info.path).schema

    def batches(
        self, schema: pa.Schema, columns: Collection[str] | None = None, *, batch_rows: int = 1 << 16
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the types of the file, with values from its folders (`name=value`) for columns of `schema`
        that it lacks; other columns that it lacks are left out.

        Raises:
            ConfigError: it was changed since it was listed.
            CorruptFileError, FileNotFoundError: it is damaged or gone.
        """
        names = schema.names if columns is None else columns
        wanted = pa.schema([schema.field(name) for name in names])
        for batch in iter_base_batches(self.source.storage, self.info.path, names, batch_rows=batch_rows):
            yield folder_values(self.uri, batch, wanted)
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Checks that the file is unchanged since the source was listed. Raises ConfigError."""
        if self.source.storage.stat(self.info.path) != self.info:
            raise ConfigError(
                f"Cannot bootstrap from {self.uri}: the file was changed meanwhile; bootstrap when nothing writes to "
                "the source any more"
            )


@dataclass(frozen=True)
class Source:
    """A folder of files."""

    storage: Storage
    base: str
    """The path as it was given, made absolute; the table's properties store it."""
    infos: tuple[FileInfo, ...]
    extension: str

    @classmethod
    def of(cls, storage: Storage, base: str) -> Source:
        """Lists the files below a folder.

        Args:
            storage: storage of the folder.
            base: its path or URI, as it was given.

        Raises:
            ConfigError: there are no files, or files at several levels.
            UnsupportedTableError: it is a Hudi table, or has files that are neither Parquet nor ORC, or both.
        """
        files = list(_list_files(storage, base))
        kinds: dict[str, str] = {}
        for info in files:
            kinds.setdefault(extension_of(info.name), info.path)
        strange = next((path for kind, path in kinds.items() if kind not in FORMATS), None)
        if strange is not None or len(kinds) > 1:
            what = f"the file {strange}" if strange is not None else " and ".join(kinds.values())
            raise UnsupportedTableError(
                f"Cannot bootstrap from {base}: it has {what}; supported: files that end with .parquet, or all with "
                ".orc; those whose names begin with '.' or '_' are left out"
            )
        if not files:
            raise ConfigError(f"Cannot bootstrap from {base}: there are no .parquet or .orc files; check the path")
        levels: dict[int, str] = {}
        for info in files:
            levels.setdefault(info.path.count("/"), info.path)
        if len(levels) > 1:
            raise ConfigError(
                f"Cannot bootstrap from {base}: it has files at several levels, {levels[min(levels)]} and "
                f"{levels[max(levels)]}; all must be as deep below it, as partitions are"
            )
        return cls(storage, base, tuple(sorted(files)), next(iter(kinds)))

    @cached_property
    def uri(self) -> str:
        """Returns the folder with its scheme, without a slash at the end."""
        return hadoop_uri(self.base.rstrip("/"))

    @cached_property
    def files(self) -> tuple[OriginalFile, ...]:
        return tuple(OriginalFile(self, info) for info in self.infos)

    @property
    def folders(self) -> tuple[str, ...]:
        """Returns the paths of the folders with files, below that of the source."""
        return tuple(dict.fromkeys(file.folder for file in self.files))

    def schemas(self) -> list[tuple[OriginalFile, pa.Schema]]:
        """Returns the different schemas of the files, each with the first file that has it.

        Raises:
            UnsupportedTableError: a file has a meta column.
            CorruptFileError: a file is damaged.
        """
        different: list[tuple[OriginalFile, pa.Schema]] = []
        for file, schema in zip(self.files, in_threads(OriginalFile.schema, self.files), strict=True):
            if not any(schema.equals(known) for _, known in different):
                different.append((file, schema.remove_metadata()))
        for file, schema in different:
            meta = next((name for name in schema.names if name in META_FIELDS), None)
            if meta is not None:
                raise UnsupportedTableError(
                    f"Cannot bootstrap from {file.uri}: it has the column {meta}, so it is of a Hudi table; supported: "
                    "files of other tables; read its rows with hudi_py.open_table and write them to a new table"
                )
        return different


def named_parts(folder: str) -> dict[str, str]:
    """Returns the columns that a folder names (`name=value`), with their texts."""
    parts = (part.partition("=") for part in folder.split("/"))
    return {name: unquote(text) for name, separator, text in parts if separator and name}


def positional_parts(folder: str, fields: Sequence[str]) -> dict[str, str | None]:
    """Returns partition columns with the texts of a folder that names no columns: part by part, or as a whole if there
    is one column. Empty if the numbers of parts and columns differ."""
    if not folder or "=" in folder:
        return {}
    parts = [folder] if len(fields) == 1 else folder.split("/")
    if len(parts) != len(fields):
        return {}
    return {name: None if text == NULL_PARTITION else text for name, text in zip(fields, parts, strict=True)}


def _list_files(storage: Storage, base: str) -> Iterator[FileInfo]:
    def shown(_: str, children: Sequence[FileInfo]) -> list[str]:
        table = next((child.path for child in children if child.is_dir and child.name == META_FOLDER), None)
        if table is not None:
            raise UnsupportedTableError(
                f"Cannot bootstrap from {base}: it is or holds a Hudi table ({table}); supported: folders of Parquet "
                "or ORC files"
            )
        return [child.path for child in children if child.is_dir and not _is_hidden(child.name)]

    for _, children in list_folders(storage, shown):
        yield from (child for child in children if not (child.is_dir or _is_hidden(child.name)))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
