"""`python -m hudi_py`: the command line."""

from __future__ import annotations

from hudi_py.cli.main import main

if __name__ == "__main__":
    main()
