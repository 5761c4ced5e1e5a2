"""Options of bootstraps, which make a table of files that there are (`HoodieBootstrapConfig`, 1.2.0)."""

from __future__ import annotations

from typing import Final

from hudi_py.config.option import Scope, choice, declared, optional_choice, optional_text, text
from hudi_py.config.table import KEYGEN_CLASS, KEYGEN_TYPE

_SELECTORS: Final = "org.apache.hudi.client.bootstrap.selector."
_TRANSLATORS: Final = "org.apache.hudi.client.bootstrap.translator."
METADATA_ONLY: Final = "METADATA_ONLY"
FULL_RECORD: Final = "FULL_RECORD"
METADATA_SELECTOR: Final = f"{_SELECTORS}MetadataOnlyBootstrapModeSelector"
FULL_SELECTOR: Final = f"{_SELECTORS}FullRecordBootstrapModeSelector"
REGEX_SELECTOR: Final = f"{_SELECTORS}BootstrapRegexModeSelector"
IDENTITY_TRANSLATOR: Final = f"{_TRANSLATORS}IdentityBootstrapPartitionPathTranslator"
DECODED_TRANSLATOR: Final = f"{_TRANSLATORS}DecodedBootstrapPartitionPathTranslator"

BASE_PATH = optional_text(
    "hoodie.bootstrap.base.path",
    "Folder of the Parquet or ORC files from which a bootstrap creates a table. They stay where they are, and are "
    "never changed. Other operations ignore this option.",
    Scope.WRITE,
    example="s3://lake/raw/trips",
)
SELECTOR = choice(
    "hoodie.bootstrap.mode.selector",
    "Mode of the partitions of the source. METADATA_ONLY writes files with the meta columns alone, beside those of "
    "the source. FULL_RECORD copies the rows. All partitions get the same mode, unless "
    "`hoodie.bootstrap.mode.selector.regex` chooses.",
    Scope.WRITE,
    METADATA_SELECTOR,
    (METADATA_SELECTOR, FULL_SELECTOR, REGEX_SELECTOR),
)
REGEX = text(
    "hoodie.bootstrap.mode.selector.regex",
    "With BootstrapRegexModeSelector, the partitions of the source, by their whole path below its folder, that get "
    "`hoodie.bootstrap.mode.selector.regex.mode`. The others get the other mode.",
    Scope.WRITE,
    ".*",
    example="date=2026-.*",
)
REGEX_MODE = choice(
    "hoodie.bootstrap.mode.selector.regex.mode",
    "The mode of the partitions that match.",
    Scope.WRITE,
    METADATA_ONLY,
    (METADATA_ONLY, FULL_RECORD),
)
TRANSLATOR = choice(
    "hoodie.bootstrap.partitionpath.translator.class",
    "The partition path of a folder of the source: the path of the folder, as it is or with `%xx` decoded.",
    Scope.WRITE,
    IDENTITY_TRANSLATOR,
    (IDENTITY_TRANSLATOR, DECODED_TRANSLATOR),
)
BOOTSTRAP_KEYGEN_CLASS = optional_choice(
    "hoodie.bootstrap.keygen.class",
    "The same as `hoodie.datasource.write.keygenerator.class`; must not contradict it.",
    Scope.WRITE,
    KEYGEN_CLASS.choices,
)
BOOTSTRAP_KEYGEN_TYPE = optional_choice(
    "hoodie.bootstrap.keygen.type",
    "The same as `hoodie.datasource.write.keygenerator.type`; must not contradict it.",
    Scope.WRITE,
    KEYGEN_TYPE.choices,
)
INDEX_TYPE = choice(
    "hoodie.bootstrap.index.type",
    "The index that names the source of each file: HFiles below `.hoodie/.aux/.bootstrap`.",
    Scope.WRITE,
    "HFILE",
    ("HFILE",),
    not_built={"NO_OP": "without an index the sources of its files could not be found"},
)

OPTIONS = declared(globals(), (KEYGEN_CLASS, KEYGEN_TYPE))
