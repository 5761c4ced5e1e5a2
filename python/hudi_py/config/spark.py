"""Options of `format("hudi-py")` alone."""

from __future__ import annotations

from hudi_py.config.option import Scope, choice, declared, flag, optional_choice, optional_text

VIEW = optional_choice(
    "view",
    "Return a description of a table, or of a read, instead of rows: the newest file slices (`files`), the active "
    "timeline (`timeline`), completed writes (`commits`), what these wrote to each file (`written`, and "
    "`archived` of the archived timeline), their extra metadata (`extra`), the partitions (`partitions`), the table's "
    "properties "
    "(`properties`), the file slices that this read would take, and which of them Spark's own Parquet reader can take "
    "(`splits`), one row that explains the read (`plan`), the pending plans of table services (`plans`), the "
    "indexes in the metadata table (`indexes`), or, without a path, the libraries that Spark's Python has for hudi-py "
    "(`environment`).",
    Scope.READ,
    (
        "files",
        "timeline",
        "commits",
        "written",
        "archived",
        "extra",
        "partitions",
        "properties",
        "splits",
        "plan",
        "plans",
        "indexes",
        "environment",
    ),
)
PIN = optional_text(
    "hoodie.py.read.pin",
    "Reads the state and the file slices that an earlier plan saw: the column `pin` of the view `plan`. If Spark "
    "resolves a DataFrame again for each action, as Spark Connect does, all actions then see the same rows.",
    Scope.READ,
)
NATIVE = choice(
    "hoodie.py.read.native",
    "Whether `read_table`, and a load after `enable`, lets Spark's own Parquet reader read base files where it reads "
    "the same rows: never (`never`), wherever it can (`always`), or where that is also likely to be faster (`auto`), "
    "so not where the slices with logs are small, or logs several times as large as the base file. If the read has "
    "storage options, it does not, because Spark's reader does not get them.",
    Scope.READ,
    "auto",
    ("auto", "always", "never"),
)
REPLACED = flag(
    "hoodie.py.read.replaced",
    "Returns, instead of rows, which rows of base files the logs replace or delete. Set by `read_table` of "
    "`pyspark_hudi`, with a pin.",
    Scope.READ,
    False,
    internal=True,
)

OPTIONS = declared(globals())
