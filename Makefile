# `make` alone prints what there is. Everything needed on a fresh machine is set up by the target that needs it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
# Another Python beside it: make unit PYTHON=python3.13 VENV=build/venv-3.13
VENV ?= .venv
RUN := $(VENV)/bin
UV_VERSION := 0.13.9

help:  ## print what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements.lock bootstrap.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=...")'
	@echo "setting up $(VENV) from requirements.lock"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement bootstrap.lock
	@$(RUN)/uv pip sync --quiet --require-hashes --python $(RUN)/python requirements.lock
	@$(RUN)/uv pip install --quiet --python $(RUN)/python --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.ready  ## set up .venv from the lock

COMPILE = $(RUN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --upgrade \
	--python-version 3.11

# bootstrap.lock: uv and the build backend. deploy/image.lock: what the image holds. deploy/tools.lock: for sbom and audit.
lock: $(VENV)/.ready  ## resolve the dependencies anew and write all locks, with hashes
	@$(COMPILE) --all-extras --group dev --output-file requirements.lock pyproject.toml
	@printf 'uv==$(UV_VERSION)\nhatchling\neditables\n' | \
		$(COMPILE) --constraint requirements.lock --output-file bootstrap.lock -
	@$(COMPILE) --constraint requirements.lock --extra forecast --extra postgresql --extra tracing --output-file deploy/image.lock pyproject.toml
	@printf 'cyclonedx-bom\npip-audit\n' | $(COMPILE) --output-file deploy/tools.lock -

check: $(VENV)/.ready  ## format, lint, types, layers
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

# Two workers: the cluster tests mostly wait. Each has a control plane of its own, built once and kept in a cache.
test: $(VENV)/.ready  ## run every test, the cluster tests on a real control plane too (built at the first run)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -n 2 --dist worksteal -m "not long and not faults" $(ARGS)

test-long: $(VENV)/.ready  ## run what takes minutes: twins under recorded loads, adopt, a demo that is interrupted
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -m long -s $(ARGS)

test-faults: $(VENV)/.ready  ## break the API server, its etcd, its certificates, the disk and the way between, and kill the operator at each write (15 min)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -m faults $(ARGS)

unit: $(VENV)/.ready  ## run the tests that need no control plane
	$(RUN)/pytest -n 2 -m "not cluster and not long and not faults" $(ARGS)

brute-force: $(VENV)/.ready  ## hold windows against brute force at each clock change of each zone, 2024 to 2040 (60 million instants, 6 to 20 min)
	@PYTHONPATH=tests $(RUN)/python -m core.scheduled.every_transition

bench: $(VENV)/.ready  ## measure a decision, schedules, learning, past decisions, and 500 idle objects beside the upstream HPA (12 min)
	@$(RUN)/python benchmarks/decision.py
	@$(RUN)/python benchmarks/simulated_week.py
	@$(RUN)/python benchmarks/learning_lag.py
	@$(RUN)/python benchmarks/learning_cost.py
	@$(RUN)/python benchmarks/schedules.py
	@$(RUN)/python benchmarks/rejections.py
	@$(RUN)/python benchmarks/decision_history.py
	@PYTHONPATH=tests $(RUN)/python benchmarks/recorded_turns.py
	@PYTHONPATH=tests $(RUN)/python benchmarks/idle_fleet.py

bench-fleet: $(VENV)/.ready  ## what 2,000 objects with 10 pods each cost: idle, scaling, at a shared edge, at a start (10 min; BENCH_OBJECTS=10000)
	@PYTHONPATH=tests $(RUN)/python benchmarks/fleet.py

# Thirteen of the twenty series of the published figures; its README says where the other seven are to be had.
TRACES ?= benchmarks/traces
bench-forecast: $(VENV)/.ready  ## what forecasts are worth on recorded series (TRACES=DIR of timestamp,value CSVs, default benchmarks/traces: 13 of the 20 published, its README says how to get the rest; GRID=1: more)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN)/python benchmarks/forecast_value.py '$(TRACES)' $(if $(GRID),--grid) $(if $(COLUMNS),--columns) $(if $(JOBS),--jobs $(JOBS))

bench-methods: $(VENV)/.ready  ## how well each forecasting method does on recorded series, and what it costs (TRACES=DIR, as above)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN)/python benchmarks/forecast_methods.py '$(TRACES)'

VECTORS ?= tests/conformance/vectors
conformance: $(VENV)/.ready  ## hold recordings of the upstream against this project (VECTORS=DIR)
	@PYTHONPATH=tests $(RUN)/python -m conformance $(VECTORS)

SEEDS ?= 1000
SEED ?= 0
simulate: $(VENV)/.ready  ## simulate hours of two replicas with faults, kills and edits: SEEDS=10000 of them, from SEED=0 on (half a second of CPU each)
	@PYTHONPATH=tests/operator nice -n 10 $(RUN)/python -m seeds $(SEED) --count $(SEEDS)

FRESH ?=
mutation: $(VENV)/.ready  ## change core/reactive and core/behavior bit by bit: which change does no test notice? (FRESH=1)
	@PYTHONPATH=tests nice -n 15 $(RUN)/python -m mutation $(if $(FRESH),--fresh)

SECONDS ?= 60
INPUTS ?= 1000000
HARNESS ?=
fuzz: $(VENV)/.ready  ## fuzz what reads texts of others: SECONDS=60 and INPUTS=1000000 for each, HARNESS=memory for one
	@$(RUN)/uv pip install --quiet --require-hashes --python $(RUN)/python -r tests/fuzz/requirements.lock
	@PYTHONPATH=tests nice -n 15 $(RUN)/python -m fuzz $(HARNESS) --seconds $(SECONDS) --inputs $(INPUTS)

format: $(VENV)/.ready  ## format the code
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix-only --quiet .

demo: $(VENV)/.ready  ## upstream HPA and CronHPA side by side, 6 min (DEMO_SECONDS=60, DEMO_SCHEDULE=0, KUBECONFIG=path)
	@# A KUBECONFIG of the environment is for daily work: only one that is given to make itself is meant.
	@DEMO_KUBECONFIG='$(if $(findstring command,$(origin KUBECONFIG)),$(KUBECONFIG))' PYTHONPATH=tests \
		$(RUN)/python -m testbed.demo

TOOLS := build/tools
$(TOOLS)/.ready: deploy/tools.lock
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement deploy/tools.lock
	@touch $@

sbom: $(TOOLS)/.ready  ## write build/sbom.json: what the image holds of Python packages, with hashes (CycloneDX)
	@$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --validate \
		--output-format JSON --output-file build/sbom.json deploy/image.lock
	@echo build/sbom.json

# --strict: where the advisories cannot be asked for a package, that is a failure and no clean bill.
audit: $(TOOLS)/.ready  ## look for known vulnerabilities of what the locks name (asks pypi.org)
	@for lock in bootstrap.lock requirements.lock deploy/image.lock deploy/tools.lock; do \
		echo $$lock; $(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit 1; done

# A tag is whatever its registry says today: a release names its base image by digest.
BASE ?=
IMAGE ?= cronhpa:0.1.0
image:  ## build the image of a release: BASE=python:3.11-slim@sha256:... IMAGE=REGISTRY/cronhpa:0.1.0
	@grep -qE '^[^@]+@sha256:[0-9a-f]{64}$$' <<<'$(BASE)' || { echo 'BASE: "$(BASE)" names no digest; give one such as' \
		'python:3.11-slim@sha256:<64 hex digits>, of `docker buildx imagetools inspect python:3.11-slim`'; exit 2; }
	@# An image of files that are in no commit has no commit to tell.
	docker build --file deploy/Dockerfile --build-arg BASE='$(BASE)' \
		--build-arg COMMIT="$$([ -n "$$(git status --porcelain)" ] || git rev-parse HEAD)" --tag '$(IMAGE)' .

clean:  ## remove .venv, caches and build/ (the control plane's cache stays)
	rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help setup lock check test test-long test-faults unit brute-force conformance mutation fuzz bench bench-fleet bench-forecast bench-methods simulate format clean demo sbom audit image
