"""Reads the metadata table: listing, statistics and indexes of a table's files."""

from hudi_py.metadata.files import MetadataLister, metadata_lister
from hudi_py.metadata.report import METADATA_SCHEMA, metadata_report
from hudi_py.metadata.table import MetadataTable, open_metadata

__all__ = ["METADATA_SCHEMA", "MetadataLister", "MetadataTable", "metadata_lister", "metadata_report", "open_metadata"]
