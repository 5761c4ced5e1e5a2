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
    "(`splits`), one row that explains the read (`plan`), the pending plans of table services (`plans`), the report of "
    "a service (`service`), the indexes in the metadata table (`indexes`), the rows of a procedure of SQL "
    "(`procedure`), the plan of a write by `write_table` (`write`), or, without a path, the libraries that Spark's "
    "Python has for hudi-py (`environment`).",
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
        "service",
        "indexes",
        "procedure",
        "write",
        "environment",
    ),
)
PROCEDURE = optional_text(
    "hoodie.py.procedure",
    "The procedure whose rows the view `procedure` gives, as a JSON object: `name`, and the arguments by their names. "
    "Set by `CALL` in SQL.",
    Scope.READ,
    internal=True,
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

SERVICE = optional_text(
    "hoodie.py.service",
    "A table service to run instead of writing rows. `run_service` of `pyspark_hudi` sets this option and the next "
    "four.",
    Scope.WRITE,
    internal=True,
)
SERVICE_PHASE = choice(
    "hoodie.py.service.phase",
    "Which part of the service to run: all of it in one process (`call`), planning (`schedule`), beginning a plan "
    "(`begin`, `begin_pending`), or executing a plan and completing it (`execute`).",
    Scope.WRITE,
    "call",
    ("call", "schedule", "begin", "begin_pending", "execute"),
    internal=True,
)
SERVICE_INSTANT = optional_text(
    "hoodie.py.service.instant", "The instant that the service works on.", Scope.WRITE, internal=True
)
SERVICE_ARGUMENTS = optional_text(
    "hoodie.py.service.arguments",
    "Further arguments of the service, as a JSON object: `user` and `comment` of a savepoint, `with_newer` of a "
    "rollback, those of `Table.rescale_buckets`.",
    Scope.WRITE,
    internal=True,
)
SERVICE_TOKEN = optional_text(
    "hoodie.py.service.token",
    "Name under which the report of the service, of a statement, or of a write by `write_table`, is stored; the view "
    "`service` reads it.",
    Scope.BOTH,
    internal=True,
)
WRITE_REQUEST = optional_text(
    "hoodie.py.write.request",
    "The write that the view `write` plans, as a JSON object. Set by `write_table` of `pyspark_hudi`, as is the next "
    "option.",
    Scope.READ,
    internal=True,
)
WRITE_PLAN = optional_text("hoodie.py.write.plan", "The plan of a write: the view `write`.", Scope.WRITE, internal=True)
WRITE_STAGES = flag(
    "hoodie.py.write.stages",
    "With the plan of a write: whether its rows come in no order, for one process to merge. Set by `write_table`.",
    Scope.WRITE,
    False,
    internal=True,
)
STATEMENT = optional_text(
    "hoodie.py.statement",
    "An update, delete or merge, or a change of an index, to run instead of writing rows, as JSON; the rows are the "
    "source of a merge. `update`, `delete_from`, `merge_into` and `sql` of `pyspark_hudi` set this option.",
    Scope.WRITE,
    internal=True,
)

OPTIONS = declared(globals())
