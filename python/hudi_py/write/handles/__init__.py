"""Handles: each writes the files of one file group for one instant."""

from hudi_py.write.handles.append import append_log
from hudi_py.write.handles.base import new_file_group
from hudi_py.write.handles.merge import merge_base_file, updates_of

__all__ = ["append_log", "merge_base_file", "new_file_group", "updates_of"]
