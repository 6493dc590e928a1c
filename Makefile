# The commands of txloom, for people and machines alike. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
export PYSPARK_PYTHON := $(BIN)/python
export TXLOOM_CLASS_ARCHIVE := $(CURDIR)/.state/spark.jsa
# Without byte code beside it every process compiles Airflow, pandas and txloom anew: 3 of a command's 6 seconds.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= 2

.NOTPARALLEL:
.PHONY: first-hour break repair up-real lived test-all cluster executors docs services help demo up down test check lint types imports declarations pytest bench soak mutants setup pins format clean distclean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: setup ## run the sample through a real Airflow, arrival by arrival, and compare with the source
	@python scripts/demo.py

up: setup ## start Airflow, and a source that lives, and leave them running
	@scripts/up.sh

up-real: setup ## the same with a real PostgreSQL, Debezium and Kafka, which it fetches (140 MB) and starts
	@scripts/up.sh --real

break: setup ## damage the living source of `make up` or `make up-real` as real sources are damaged (FAULT=NAME; without: list them)
	@txloom trial break $(FAULT)

repair: setup ## make good what `make break` broke (FAULT=NAME: one of them)
	@txloom trial repair $(FAULT)

down: ## stop what `make up` and `make up-real` started
	@scripts/down.sh

test: check pytest ## what a person runs before a commit: lint, types, imports, declarations, tests that are not long

test-all: export TXLOOM_EXAMPLES ?= 100
test-all: export TXLOOM_WORKLOADS ?= 2
test-all: export TXLOOM_FUZZ ?= 50
test-all: CHOSEN = -m "not machines"
test-all: check pytest lived ## all tests, with two thirds of the examples that their authors chose, and `make lived`; TXLOOM_SHARD=2/4: only a shard of the long ones

check: setup lint types imports declarations ## all checks that need no Spark

lint:
	@echo "== ruff"
	@ruff check .
	@ruff format --check .

types:
	@echo "== mypy"
	@mypy include/txloom jobs dags $(wildcard plugins/*.py)

imports:
	@echo "== import contracts"
	@lint-imports --cache-dir .state/cache/import_linter

declarations:
	@echo "== declared pipelines"
	@txloom check

pytest: services
	@echo "== tests"
	@AIRFLOW_HOME=$(CURDIR)/.state/tests/airflow python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(CHOSEN) $(LIVED:%=--ignore=%)

CHOSEN = -m "not long and not machines"
LIVED = tests/dags/test_dead_letters.py tests/dags/test_lived_in.py tests/dags/test_operations.py tests/orchestration/test_backfill_runs.py

lived: services ## approvals and backfills by people, in a real Airflow (about 25 minutes; not part of test)
	@AIRFLOW_HOME=$(CURDIR)/.state/tests/airflow python -m pytest -n0 $(LIVED)

first-hour: services ## docs/trial.md played in a real Airflow, with files and with PostgreSQL, docs/own-tables.md, and an audit with its repair (an hour; not part of test)
	@AIRFLOW_HOME=$(CURDIR)/.state/tests/airflow python -m pytest -n0 tests/docs/test_own_tables.py tests/dags/test_trial.py tests/dags/test_up_real.py tests/dags/test_repair.py

cluster: services ## a cluster of Spark with lakes on S3 and HDFS: four pipelines in an Airflow on PostgreSQL, lost workers, 50 races (two hours)
	@TXLOOM_RACES=50 AIRFLOW_HOME=$(CURDIR)/.state/tests/airflow python -m pytest -n0 tests/cluster tests/storage/stores

bench: setup ## measure every part beside its limit (PARTS="merge first_load": some of them; see tests/benchmarks/run.py)
	@PYTHONPATH=$(CURDIR)/tests python tests/benchmarks/run.py $(PARTS)

soak: setup ## 2,000 random workloads of every source without a JVM, 100 through Spark, as many with edited declarations, a million messages that lie (hours)
	@TXLOOM_FUZZ=20000 python -m pytest -n $(WORKERS) --dist load --timeout 7200 tests/events/fuzz
	@TXLOOM_COMPILED=1 TXLOOM_EXAMPLES=3000 TXLOOM_LAKES=2000 TXLOOM_WORKLOADS=100 TXLOOM_LARGE=1000000 python -m pytest -n $(WORKERS) --dist load --timeout 7200 tests/workloads
	@TXLOOM_COMPILED=1 TXLOOM_EDITED=2000 python -m pytest -n $(WORKERS) --dist load --timeout 7200 tests/workloads/random/test_any_declaration.py
	@TXLOOM_SNAPSHOTS=100 python -m pytest -n $(WORKERS) --dist load --timeout 7200 tests/steps/snapshots/test_follow_any_snapshots.py

mutants: setup ## put wrong rules into a copy, one at a time; the tests must catch each (half an hour; ONLY=TEXT: some)
	@python scripts/mutation_check.py $(if $(ONLY),--only "$(ONLY)")

services: setup ## fetch what tests start: Kafka, Kafka Connect, Debezium (140 MB), HDFS, S3, PostgreSQL, MariaDB, MySQL, Chromium; done by test itself
	@scripts/fetch_kafka.sh "$(BIN)/python"
	@scripts/fetch_moto.sh "$(BIN)/python" >/dev/null
	@scripts/fetch_jars.sh "$(BIN)/python" .state/hdfs hdfs
	@scripts/fetch_postgres.sh >/dev/null || echo "      tests with PostgreSQL are skipped, with the reason; in CI they fail"
	@scripts/fetch_mariadb.sh >/dev/null || echo "      tests with MariaDB are skipped, with the reason; in CI they fail"
	@scripts/fetch_mysql.sh >/dev/null || echo "      tests with MySQL are skipped, with the reason; in CI they fail"
	@scripts/fetch_chromium.sh >/dev/null || echo "      tests in a browser are skipped, with the reason; in CI they fail"

setup: ## make .venv, jars and .state; done by the others themselves
	@scripts/setup.sh

executors: setup ## pack the Python packages that Spark's executors on other machines need into .state/executors.tar.gz
	@python scripts/pack_executors.py

docs: setup ## build the documentation as a site in .state/site; a broken link, or anything from another host, ends it
	@python scripts/config_reference.py
	@NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "== documentation: .state/site/index.html"

pins: setup ## compile requirements.txt, requirements-dev.txt and those of scripts/moto anew
	@for name in requirements requirements-dev; do \
	  uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 \
	    --no-header --no-annotate --no-emit-index-url $$name.in --output-file $$name.txt || exit; \
	done
	@uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
	  scripts/moto/requirements.in --output-file scripts/moto/requirements.txt

format: setup ## let ruff put the code in order
	@ruff check --fix .
	@ruff format .

clean: down ## throw away what runs and checks left behind; keeps .venv and jars
	@find .state -mindepth 1 -maxdepth 1 ! -name setup ! -name spark.jsa ! -name kafka ! -name postgres ! -name mariadb ! -name mysql -exec rm -rf {} +
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## throw away .venv and jars too
	@rm -rf .venv .state jars
