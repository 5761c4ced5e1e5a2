"""Archives of tables that tests extract."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract(archive: Path, folder: Path) -> None:
    """Extracts an archive below a folder, keeping modification times: before version 8 instants complete by them."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:  # Python 3.10 before 3.10.12
            opened.extractall(folder)
