"""The command line `hudi-py`.

`main` and the modules with commands (`look`, `rows`, `maintain`) import nothing slow, so that help and shell completion
are quick; a command imports its implementation when it runs.
"""
