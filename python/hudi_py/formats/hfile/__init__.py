"""HFile version 3: sorted keys and values, the format of the metadata table's base files and log blocks."""

from hudi_py.formats.hfile.entries import Entries
from hudi_py.formats.hfile.reader import HFile, open_hfile, read_hfile
from hudi_py.formats.hfile.writer import HFileWriter, write_hfile

__all__ = ["Entries", "HFile", "HFileWriter", "open_hfile", "read_hfile", "write_hfile"]
