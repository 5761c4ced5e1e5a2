"""Imports go down only: each package of `hudi_py` has a layer, and imports its own and lower ones."""

from __future__ import annotations

from typing import Final, NamedTuple

import hudi_py
from tests.meta.sources import Import, Module, connector, core


class Layer(NamedTuple):
    """Packages that may not import one another, and what they know that lower layers do not."""

    packages: tuple[str, ...]
    knows: str


# Lowest first. CONTRIBUTING.md shows them as a table, which `make layers-table` writes.
LAYERS: Final = (
    Layer(("errors", "config", "model", "progress", "markup"), "frozen values: instants, names, files, options"),
    Layer(("storage",), "bytes at a path"),
    Layer(("formats",), "bytes to Arrow and back; no table"),
    Layer(("schema",), "Avro and Arrow schemas, meta fields; no timeline"),
    Layer(("expressions",), "SQL expressions over Arrow batches; Java's dates and patterns"),
    Layer(("timeline",), "instants and their metadata"),
    Layer(("view",), "partitions, file groups and slices at an instant"),
    Layer(("merge",), "log records, and how versions of a record merge"),
    Layer(("metadata",), "reading the metadata table"),
    Layer(("read",), "scans: plan, split, slice"),
    Layer(("inspect",), "what a table shows of itself: reports, relations, procedures"),
    Layer(("file_stats",), "the statistics of a data file, for the metadata table"),
    Layer(("transaction",), "the life of an action: instants, markers, locks, recovery; no rows"),
    Layer(("write",), "rows into files: keys, index, handles"),
    Layer(("services",), "compaction, cleaning, archiving, restore and the like"),
    Layer(("metadata_write",), "writing the metadata table, within every action"),
    Layer(("interop",), "tables as other systems see them"),
    Layer(("wiring",), "metadata writer and services, put together from options"),
    Layer(("health",), "what can be wrong with a table, and its repair"),
    Layer(("erasure",), "deleting rows from every file of a table"),
    Layer(("report",), "a table in short, and as one HTML page"),
    Layer(("tending",), "care of many tables within a budget"),
    Layer(("table", "catalog"), "the public names"),
    Layer(("cli", "testing"), "the command line; checks for other implementers"),
    Layer(("__main__",), "`python -m hudi_py`"),
)
LAYER_OF: Final = {name: number for number, layer in enumerate(LAYERS) for name in layer.packages}

# Third parties that are optional or slow to load: imported where they are used, never with the module.
LAZY: Final = frozenset(
    {"duckdb", "fastavro", "lance", "obstore", "pandas", "polars", "pyiceberg", "pyspark", "sqlglot"}
)

# Parts of PyArrow that load pandas where it is installed.
LAZY_PARTS: Final = frozenset({("pyarrow", "acero"), ("pyarrow", "dataset")})

# The modules of the core that the connector imports: what plans and reads a split, plans a write and commits it, and
# runs a service or a statement. What they offer is enough for an engine; how tables are laid out and seen is not. One
# module of the connector reaches further: its functions are what an application calls on Spark.
CALLS: Final = "pyspark_hudi.calls"
FOR_CONNECTOR: Final = frozenset(
    {
        "hudi_py.config",
        "hudi_py.errors",
        "hudi_py.expressions",
        "hudi_py.inspect",
        "hudi_py.read",
        "hudi_py.schema",
        "hudi_py.services.distributed",
        "hudi_py.wiring",
        "hudi_py.write.batches",
        "hudi_py.write.distributed",
        "hudi_py.write.dml.distributed",
        "hudi_py.write.routed",
    }
)


def package_of(name: str) -> str | None:
    """`hudi_py.formats.avro.decode` belongs to `formats`; `hudi_py` itself to none."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


def targets(found: Import) -> str | None:
    """The package an import of `hudi_py` reaches; None for the facade itself."""
    if found.module == "hudi_py" and found.name in LAYER_OF:
        return found.name
    return package_of(found.module)


def own_imports(module: Module) -> list[Import]:
    return [found for found in module.imports() if found.top == "hudi_py"]


def test_every_package_has_a_layer() -> None:
    assert len(core()) > 300
    packages = {package_of(module.name) for module in core()} - {None}
    assert packages <= LAYER_OF.keys(), f"no layer is given for {packages - LAYER_OF.keys()}"


def test_imports_go_down() -> None:
    problems = []
    for module in core():
        package = package_of(module.name)
        if package is None:
            continue  # the facade names what is public, from any layer
        for found in own_imports(module):
            target = targets(found)
            place = f"{module.shown}:{found.line}"
            if target is None and package == "cli":
                continue  # the command line stands on the public names, which are loaded when they are used
            if target is None:
                problems.append(f"{place}: imports the facade hudi_py, which imports everything")
            elif LAYER_OF[target] > LAYER_OF[package]:
                problems.append(
                    f"{place}: {package} (layer {LAYER_OF[package]}) imports {target} (layer {LAYER_OF[target]})"
                )
            elif LAYER_OF[target] == LAYER_OF[package] and target != package and LAYER_OF[package] != 0:
                problems.append(f"{place}: {package} imports its neighbour {target}")
    assert not problems, "\n".join(problems)


def test_imports_inside_functions_are_for_optional_packages() -> None:
    # The connector's facade loads the rest on demand, so that Spark's look-up of any data source stays quick; a command
    # loads its work when it runs, so that help and shell completion are quick.
    def allowed(module: Module) -> frozenset[str]:
        quick = module.name == "pyspark_hudi" or package_of(module.name) == "cli"
        return LAZY | {"hudi_py", "pyspark_hudi"} if quick else LAZY

    problems = [
        f"{module.shown}:{found.line}: {found.module}"
        for module in (*core(), *connector())
        for found in module.imports()
        if found.in_function and found.top not in allowed(module) and (found.module, found.name) not in LAZY_PARTS
    ]
    assert not problems, "imported inside a function, but belongs to the top:\n" + "\n".join(problems)


def test_optional_packages_are_imported_where_they_are_used() -> None:
    problems = [
        f"{module.shown}:{found.line}: {found.module}"
        for module in core()
        for found in module.imports()
        if found.top in LAZY and not found.in_function and not found.for_types_only
    ]
    assert not problems, "loaded at import:\n" + "\n".join(problems)


def test_only_the_command_line_imports_its_libraries() -> None:
    users = {
        package_of(module.name) for module in core() for found in module.imports() if found.top in ("click", "rich")
    }
    assert users == {"cli"}
    assert not [module.shown for module in connector() for found in module.imports() if found.top in ("click", "rich")]


def test_the_core_never_imports_spark() -> None:
    problems = [
        f"{module.shown}:{found.line}: {found.module}"
        for module in core()
        for found in module.imports()
        if found.top in ("pyspark", "py4j", "pyspark_hudi")
    ]
    assert not problems, "\n".join(problems)


def test_the_connector_uses_a_narrow_face_of_the_core() -> None:
    used: dict[str, str] = {}
    for module in connector():
        if module.name == CALLS:
            continue
        for found in own_imports(module):
            whole = found.module == "hudi_py" and found.name in LAYER_OF
            if found.module != "hudi_py" or whole:
                name = f"hudi_py.{found.name}" if whole else found.module
                used.setdefault(name, f"{module.shown}, line {found.line}")
            elif found.name is not None:
                assert found.name in hudi_py.__all__, f"{module.shown}, line {found.line}: {found.name} is not public"
    assert used.keys() - FOR_CONNECTOR == set(), used
    assert FOR_CONNECTOR - used.keys() == set(), "no longer used: take it from the list"
    assert len(FOR_CONNECTOR) <= 12


def test_the_connector_works_on_connect() -> None:
    """No py4j and no RDD: neither is there on a Spark Connect client."""
    assert connector()
    for module in connector():
        assert "py4j" not in {found.top for found in module.imports()}, module.shown
        for name in ("._jvm", "._jsc", "._jdf", ".sparkContext", ".rdd"):
            assert name not in module.text, f"{module.shown} uses {name}"


def test_private_names_stay_in_their_package() -> None:
    problems = [
        f"{module.shown}:{found.line}: {found.module}.{found.name}"
        for module in (*core(), *connector())
        for found in module.imports()
        if found.top in ("hudi_py", "pyspark_hudi")
        and found.name is not None
        and found.name.startswith("_")
        and not found.module.startswith(module.name if module.is_package else module.name.rpartition(".")[0])
    ]
    assert not problems, "private names imported:\n" + "\n".join(problems)
