"""The metadata table, read: listing, statistics and indexes of a table's files."""

from hudi_py.metadata.files import MetadataLister, metadata_lister
from hudi_py.metadata.table import MetadataTable, open_metadata

__all__ = ["MetadataLister", "MetadataTable", "metadata_lister", "open_metadata"]
