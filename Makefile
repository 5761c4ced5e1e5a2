# Everything runs in .venv in the checkout, which tools/setup.sh creates on the first call. See `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

RUN := tools/run
PYTEST := $(RUN) python -m pytest
# The number of parallel test processes; each starts its own JVM if it needs one.
JOBS ?= 2
# More arguments for pytest, for example: make test ARGS="-k upsert"
ARGS ?=

# Only existing folders, since pytest fails on others.
NO_JVM := $(wildcard tests/meta tests/unit tests/property tests/golden tests/faults tests/concurrency tests/fuzz)
SPARK := $(wildcard tests/connector)
ORACLE := $(wildcard tests/oracle)

.PHONY: help setup demo test quick quick-slow test-connector connector-slow stores hdfs oracle oracle-quick oracle-slow oracle-long long nightly quick-nightly connector-nightly stores-nightly oracle-nightly check lint format types layers bench oldest pythons lock matrix layers-table docs docs-check docs-pages sbom conda-recipe release-notes clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create or update the environment in .venv
	@tools/setup.sh

demo: ## Show the main job on real data: TPC-H as a Hudi table, through Spark and plain Python
	@$(RUN) python -m examples.demo $(ARGS)

test: quick test-connector oracle-quick ## Run the tests: without a JVM, through Spark, and against Apache Hudi

quick: ## Run the tests that need no JVM
	@echo "== tests without a JVM"
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(NO_JVM) -m "not slow" $(ARGS)

quick-slow: ## Run the slower tests that need no JVM
	@echo "== slower tests without a JVM"
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(NO_JVM) -m "slow and not nightly" $(ARGS)

test-connector: ## Run the Spark tests, classic and Connect
	@echo "== Spark tests"
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(SPARK) -m "not slow" $(ARGS)

connector-slow: ## Run the slower Spark tests
	@echo "== slower Spark tests"
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(SPARK) -m "slow and not nightly" $(ARGS)

stores: ## Run the tests on object stores and lock services (servers from PyPI and PySpark's jars, on this machine)
	@echo "== tests on object stores"
	@$(PYTEST) -q -n $(JOBS) --dist loadfile $(wildcard tests/stores) -m "not slow" $(ARGS)

hdfs: export HUDI_PY_HDFS := 1
hdfs: ## Run the tests on a real HDFS (builds libhdfs on the first call: needs cc, cargo, mvn and a JDK)
	@echo "== tests on HDFS"
	@$(PYTEST) -q tests/stores/test_hdfs.py $(ARGS)

oracle: oracle-nightly oracle-long ## Run all tests against Apache Hudi itself (sets it up on the first call)

nightly: ## Run what CI omits: other samples, whole products, random histories, other Pythons; takes a few hours
	@.ci/nightly

quick-nightly:
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(NO_JVM) $(ARGS)

connector-nightly:
	@$(PYTEST) -q -n $(JOBS) --dist worksteal $(SPARK) $(ARGS)

stores-nightly:
	@$(PYTEST) -q $(wildcard tests/stores) $(ARGS)

# CI and `make nightly` run a selection by HUDI_PY_SEED; this runs everything: every case, and a kill at every call.
long: export HUDI_PY_WHOLE := 1
long: oracle-long ## Run everything that CI and the nightly run only sample: all cases, a kill at every call; takes many hours
	@echo "== long tests without a JVM, through Spark and on object stores"
	@$(PYTEST) -q -n $(JOBS) $(NO_JVM) $(SPARK) -m long $(ARGS)
	@$(PYTEST) -q $(wildcard tests/stores) -m slow $(ARGS)
	@$(PYTEST) -q -n $(JOBS) $(wildcard tests/faults) -m "not long" $(ARGS)

oracle-quick: CHOSEN := not slow
oracle-slow: CHOSEN := slow and not nightly
oracle-nightly: CHOSEN := not long
oracle-long: CHOSEN := long
oracle-quick oracle-slow oracle-nightly oracle-long:
	@echo "== tests against Apache Hudi ($(CHOSEN))"
	@$(RUN) tests/oracle/setup.sh || [ -z "$${CI:-}" ]
	@$(PYTEST) -q -n $(JOBS) --dist worksteal --durations 15 $(ORACLE) -m "$(CHOSEN)" $(ARGS)

check: lint types layers test quick-slow connector-slow oracle-slow ## Lint, types, layers and the tests of CI, except those on object stores

lint: ## Run ruff
	@$(RUN) ruff check .

format: ## Format the code with ruff and apply its safe fixes
	@$(RUN) ruff check --fix --quiet . || true
	@$(RUN) ruff format .

types: ## Run mypy, strict
	@$(RUN) mypy

layers: ## Check layers, imports and module sizes
	@$(PYTEST) -q tests/meta $(ARGS)

bench: ## Compare with Apache Hudi, hudi-rs and Spark's Parquet reader on TPC-H tables
	@$(RUN) tests/oracle/setup.sh
	@$(RUN) python -m benchmarks $(ARGS)

oldest: export HUDI_PY_VENV := $(CURDIR)/.venv-oldest
oldest: export HUDI_PY_LOCK := requirements-oldest-lock.txt
oldest: export HUDI_PY_JAVA_MAX := 21
oldest: export PYTHON := python3.10 python3.11 python3.12 python3
oldest: ## Run the tests with the oldest supported PySpark and libraries, in .venv-oldest
	@$(PYTEST) -q $(wildcard tests/unit tests/golden) $(SPARK) -m "not long" $(ARGS)

pythons: ## Run tests without a JVM under the other supported Pythons on this machine, or PYTHONS="3.10 3.13", in .venv-3.x
	@tools/pythons.sh $(ARGS)

lock: ## Resolve the lock files from pyproject.toml again
	@tools/setup.sh
	@tools/lock.sh

docs: ## Build the documentation site into build/site, strictly; `python -m http.server -d build/site` shows it
	@tools/docs.sh site

docs-check: docs ## Check the site in a headless Chromium: no external requests, no errors, accessible
	@$(PYTEST) -q tests/site $(ARGS)

docs-pages: matrix ## Generate pages from code: options, doctor, known options, statements, services, the matrix
	@mkdir -p build
	@$(RUN) python -m hudi_py.config.docs >build/options.md && mv build/options.md docs/options.md
	@$(RUN) python -m tools.doctor_page >build/doctor.md && mv build/doctor.md docs/doctor.md
	@$(RUN) python -m tools.known_options
	@$(RUN) python -m tools.statements
	@$(RUN) python -m tools.services

sbom: ## Write the bill of materials of the package with all extras, build/hudi-py.cdx.json (CycloneDX)
	@tools/docs.sh sbom

conda-recipe: ## Render the recipe for conda
	@tools/docs.sh recipe

release-notes: ## Print the changelog of a release: make release-notes VERSION=0.1.0
	@$(RUN) python -m tools.release_notes $(VERSION)

matrix: ## Write the compatibility matrix of docs/compatibility.md from the tests' table of expectations
	@$(RUN) python -m tools.matrix --write

layers-table: ## Write CONTRIBUTING's table of layers from the test that enforces them
	@$(RUN) python -m tools.layers

clean: ## Remove caches and the leftovers of tests, demo and benchmarks (not the environments)
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .demo .bench .cache build dist spark-warehouse metastore_db derby.log
