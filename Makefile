# Everything from nothing: each target makes the environment it needs, at locked versions, and does not do it twice.
# Needed beforehand: make, and a Python from 3.11 to 3.14. Spark's Java is looked for, see scripts/java_home.sh.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

# A newcomer's machine may have settings of its own for any of these.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV UV_PROJECT_ENVIRONMENT
# Spark starts many Python processes: without bytecode each compiles the sources anew, 0.4 s of its time.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.slidejoin-ready
# One more than the smallest machine has cores: tests of Spark wait more than they compute.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest
# Tests that share a session of Spark stay together (tests/conftest.py); the others go where there is room.
PARALLEL := -n $(WORKERS) --dist loadgroup
# Expanded in the recipe, so that Java is looked for only where it is needed; stops the recipe if there is none.
JAVA = JAVA_HOME=$$(scripts/java_home.sh) && export JAVA_HOME

##@ For everybody
.PHONY: help demo test check docs
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: $(READY) ## join the flights of 2013 with each other and with the weather, on local Spark
	@$(JAVA) && $(BIN)/python demo/run.py

test: $(READY) ## all tests: a short run without compilation, then the whole suite
	@$(JAVA) && { scripts/chromium.sh >/dev/null || true; } && scripts/test.sh $(PARALLEL)

check: lint types layers house ## everything that is checked without running the code

docs: $(READY) ## the pages of docs/ as a site, in site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean --quiet
	@echo "open site/index.html"

##@ For work on slidejoin
.PHONY: env lint format types layers house unit nojit nightly matrix bench screenshots scoreboard compare papers wheel-test release lock clean distclean
env: $(READY) ## only make the environment, and the hook that checks the subjects of commits
	@scripts/commit_msg.sh --install

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(READY) ## let ruff repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(READY) ## mypy, strict
	$(BIN)/mypy

layers: $(READY) ## imports go downward only, and no two classes have one name
	$(BIN)/lint-imports
	$(BIN)/python scripts/class_names.py

house: $(READY) ## figures of the house: fragments, knobs, long lines; none may grow
	$(BIN)/python scripts/house.py

unit: $(READY) ## the tests that need no Spark
	$(PYTEST) $(PARALLEL) -m "not spark and not nightly"

nojit: $(READY) ## the tests marked nojit, with the kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "nojit and not nightly"

nightly: $(READY) ## the whole suite with the long tests, and with fifty times as many random examples
	@$(JAVA) && HYPOTHESIS_PROFILE=nightly $(PYTEST) $(PARALLEL) -m "nightly or not nightly"

matrix: $(READY) ## the tests marked smoke on other versions of Spark (SPARKS="4.1 4.2"; MARKS=smoke: long ones too)
	@$(JAVA) && $(if $(MARKS),MARKS="$(MARKS)") $(if $(TESTS),TESTS="$(TESTS)") scripts/matrix.sh $(or $(SPARKS),4.1 4.2)

bench: $(READY) ## rows a second of five real tasks, beside Polars and DuckDB
	$(BIN)/slidejoin bench tasks

screenshots: $(READY) ## the pictures of the live page in docs/images, of a real job; needs Chromium
	$(BIN)/python scripts/screenshots.py

scoreboard: $(READY) ## the tables of must and goal, embedded and on Spark: an hour, and up to 16 GiB
	$(BIN)/python -m benchmarks.scoreboard
	@$(JAVA) && $(BIN)/python -m benchmarks.scoreboard --terms
	$(BIN)/python -m benchmarks.scoreboard --topologies
	@$(JAVA) && $(BIN)/python -m benchmarks.scoreboard --spark

compare: $(READY) ## four joins in slidejoin and in six other systems: half an hour (SYSTEMS=duckdb,polars; ROWS=20000)
	@$(JAVA) && $(BIN)/python -m benchmarks.compare $(if $(SYSTEMS),--systems $(SYSTEMS)) $(if $(ROWS),--rows $(ROWS))

papers: $(READY) ## the papers' experiments, as ratios: five minutes (PAPER=spo or pan: on Spark; FULL=1; JSON=1)
ifdef PAPER
	@$(JAVA) && $(BIN)/python -m benchmarks.papers.on_spark --paper $(PAPER) $(if $(FULL),--full) $(if $(JSON),--json)
else
	$(BIN)/python -m benchmarks.papers $(if $(JSON),--json)
endif

wheel-test: $(READY) ## build the wheel, install it alone, join two batches with it
	scripts/wheel_test.sh

release: $(READY) ## build a release of the last commit in dist/ and prove it (TAG=v1.2.3: nothing may be missing)
	$(BIN)/python -m scripts.release $(if $(TAG),--tag "$(TAG)") $(if $(PYTHONS),--pythons "$(PYTHONS)")

lock: $(READY) ## write requirements/*.lock again (make lock UPGRADE=--upgrade for newer versions)
	scripts/lock.sh $(UPGRADE)

clean: ## remove caches, builds and results, keep the environment
	rm -rf build dist site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	rm -rf demo/out bench-results spark-warehouse metastore_db artifacts derby.log
	find src tests scripts demo examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove the environment too
	rm -rf $(VENV)

# The environment also notes the version of slidejoin, which __init__.py has.
$(READY): requirements/bootstrap.lock requirements/dev.lock pyproject.toml src/slidejoin/__init__.py \
		scripts/env.sh scripts/install.py scripts/python.sh scripts/readme_hook.py
	@scripts/env.sh $(VENV)
	@touch $@
