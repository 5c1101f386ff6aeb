# `make` alone prints what there is. Everything needed on a fresh machine is set up by the target that needs it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
# Another Python beside it: make unit PYTHON=python3.13 VENV=build/venv-3.13
VENV ?= .venv
RUN := $(VENV)/bin
UV_VERSION := 0.13.9
# Tests start hundreds of processes: without bytecode each of them compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

# What a newcomer needs, in this order; `make` prints all others under "more".
FIRST := demo map unit check format test

help:  ## print what there is
	@awk -F':.*## ' -v first='$(FIRST)' ' \
		function line(name) {printf "  make %-14s %s\n", name, told[name]; delete told[name]} \
		/^[a-z-]+:.*## / {names[++count] = $$1; told[$$1] = $$2} \
		END {for (n = split(first, wanted, " "); i < n;) line(wanted[++i]); \
			print "\nmore"; for (i = 1; i <= count; i++) if (names[i] in told) line(names[i])}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements.lock bootstrap.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=...")'
	@echo "setting up $(VENV) from requirements.lock"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement bootstrap.lock
	@$(RUN)/uv pip sync --quiet --compile-bytecode --require-hashes --python $(RUN)/python requirements.lock
	@$(RUN)/uv pip install --quiet --python $(RUN)/python --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.ready  ## set up .venv from the lock

COMPILE = $(RUN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --upgrade \
	--python-version 3.11

# bootstrap.lock: uv and the build backend. deploy/image.lock, image-slim.lock and base.lock: what the images hold.
# deploy/plugin.lock: what the plugin in one file holds. deploy/tools.lock: for sbom and audit.
lock: $(VENV)/.ready  ## resolve the dependencies anew and write all locks, with hashes
	@$(COMPILE) --all-extras --group dev --output-file requirements.lock pyproject.toml
	@printf 'uv==$(UV_VERSION)\nhatchling\neditables\n' | \
		$(COMPILE) --constraint requirements.lock --output-file bootstrap.lock -
	@$(COMPILE) --constraint requirements.lock --extra forecast --extra postgresql --extra tracing --output-file deploy/image.lock pyproject.toml
	@$(COMPILE) --constraint requirements.lock --extra postgresql --output-file deploy/image-slim.lock pyproject.toml
	@$(COMPILE) --constraint requirements.lock --output-file deploy/plugin.lock pyproject.toml
	@$(RUN)/python deploy/image.py --lock-base
	@printf 'cyclonedx-bom\npip-audit\n' | $(COMPILE) --output-file deploy/tools.lock -

check: $(VENV)/.ready  ## format, lint, types, layers
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

# Four workers for two cores: the cluster tests mostly wait, in two of them (tests/distribution.py).
test: $(VENV)/.ready  ## run the tests, those of the cluster on a real control plane too (built at the first run)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -n 4 --dist loadscope -m "not slow and not long and not faults" $(ARGS)

test-slow: $(VENV)/.ready  ## run the tests of which each takes seconds, as CI does after `make test` (10 min)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -n 4 --dist loadscope -m slow $(ARGS)

# More than five failures are no race. `--lfnf none`: with nothing to run again, the first run failed otherwise.
test-again: $(VENV)/.ready  ## run what failed in the last run once more, alone: a test that passes now raced with the others
	@failed=$$($(RUN)/pytest --cache-show cache/lastfailed -q 2>/dev/null | grep -c "::"); \
		if [ "$$failed" -gt 5 ]; then echo "$$failed tests failed: too many to be races with other tests"; exit 1; fi
	$(RUN)/pytest -rA --lf --lfnf none $(ARGS)

test-long: $(VENV)/.ready  ## run what takes minutes: twins under recorded loads, adopt, a demo that is interrupted
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -m long -s $(ARGS)

test-faults: $(VENV)/.ready  ## break the API server, its etcd, its certificates, the disk and the way between, kill the operator at each write, and crowd a namespace (30 to 45 min)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -m faults $(ARGS)

unit: $(VENV)/.ready  ## run the tests that need no control plane
	$(RUN)/pytest -n 2 -m "not cluster and not slow and not long and not faults" $(ARGS)

ROOM ?=
coverage: $(VENV)/.ready  ## print what each module's own tests run of it, and fail below tests/own_coverage.py's least (ROOM=core: of one room)
	@PYTHONPATH=tests $(RUN)/python -m own_coverage $(ROOM)

chart-test: $(VENV)/.ready  ## render, lint, install, upgrade and `helm test` the chart, and its policy's refusals, on a real API server (2 min; KUBERNETES=1.30: of that version)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	$(RUN)/pytest -m "not long" tests/deploy/test_chart*.py tests/cluster/test_chart_*.py tests/cluster/test_helm_test.py \
		tests/cluster/test_tenants.py $(ARGS)

brute-force: $(VENV)/.ready  ## hold windows against brute force at each clock change of each zone, 2024 to 2040 (60 million instants, 6 to 20 min)
	@PYTHONPATH=tests $(RUN)/python -m core.schedules.every_transition

bench: $(VENV)/.ready  ## measure a decision, schedules, learning, a scrape, past decisions, and 500 idle objects beside the upstream HPA (12 min)
	@$(RUN)/python benchmarks/decision.py
	@$(RUN)/python benchmarks/simulated_week.py
	@$(RUN)/python benchmarks/learning_lag.py
	@$(RUN)/python benchmarks/learning_cost.py
	@$(RUN)/python benchmarks/schedules.py
	@$(RUN)/python benchmarks/rejections.py
	@$(RUN)/python benchmarks/scrape.py
	@$(RUN)/python benchmarks/decision_history.py
	@PYTHONPATH=tests $(RUN)/python benchmarks/recorded_reconciliations.py
	@PYTHONPATH=tests $(RUN)/python benchmarks/idle_fleet.py

bench-fleet: $(VENV)/.ready  ## what 2,000 objects with 10 pods each cost: idle, scaling, at a shared edge, at a start (10 min; BENCH_OBJECTS=10000; REAL=1: is it as under the real API server?)
	@PYTHONPATH=tests $(RUN)/python benchmarks/fleet.py $(if $(REAL),--real)

bench-page: $(VENV)/.ready  ## seconds of the page with 10,000 objects in a real browser (OBJECTS=10000; needs npm)
	@PYTHONPATH=tests $(RUN)/python benchmarks/page_in_browser.py $(OBJECTS)

bench-peers: $(VENV)/.ready  ## KEDA, the plain HPA and cronhpa in one run: at rest, at an edge, at a step, killed (45 min, and half an hour to build KEDA once; BENCH_OBJECTS=500; BENCH_SCENARIOS=idle,edge)
	@PYTHONPATH=tests $(RUN)/python benchmarks/peers.py

bench-edge: $(VENV)/.ready  ## an edge that 500 objects share on a real API server: Ready at their start? (20 min; BENCH_OBJECTS=100, BENCH_EDGES=1)
	@PYTHONPATH=tests $(RUN)/python benchmarks/real_edge.py

bench-event: $(VENV)/.ready  ## a planned event over 30 of 40 objects on a real API server: Ready at its start? An edit, a kill (18 min)
	@PYTHONPATH=tests $(RUN)/python benchmarks/real_event.py

bench-report: $(VENV)/.ready  ## a report of 20 HPAs over recorded series in a real Prometheus, and the week after it (15 min; BENCH_TARGETS=200; TRACES=DIR, as for bench-forecast)
	@PYTHONPATH=tests $(RUN)/python benchmarks/cluster_report.py '$(TRACES)'

bench-reaction: $(VENV)/.ready  ## from a step of the load to the first scale write: sources, an adapter, the upstream HPA (10 min; BENCH_OBJECTS=50)
	@PYTHONPATH=tests $(RUN)/python benchmarks/reaction.py

# Thirteen of the twenty series of the published figures; its README says where the other seven are to be had.
TRACES ?= benchmarks/traces
bench-forecast: $(VENV)/.ready  ## what forecasts are worth on recorded series (TRACES=DIR of timestamp,value CSVs, default benchmarks/traces: 13 of the 20 published, its README says how to get the rest; GRID=1: more)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN)/python benchmarks/forecast_value.py '$(TRACES)' $(if $(GRID),--grid) $(if $(COLUMNS),--columns) $(if $(JOBS),--jobs $(JOBS))

bench-forecast-peers: $(VENV)/.ready  ## Crane's own predictors and statsforecast's models on recorded series, beside ours (TRACES=DIR, as above; DAYS=3 of each; builds Crane's once)
	@PYTHONPATH=tests OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN)/python benchmarks/forecast_peers.py '$(TRACES)' $(if $(DAYS),--days $(DAYS)) $(if $(JOBS),--jobs $(JOBS))

bench-methods: $(VENV)/.ready  ## how well each forecasting method does on recorded series, and what it costs (TRACES=DIR, as above)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN)/python benchmarks/forecast_methods.py '$(TRACES)'

monitoring: $(VENV)/.ready  ## write docs/reference/metrics.md, the alerts and the Grafana dashboards from the code
	@$(RUN)/python deploy/monitoring/generate.py

VECTORS ?= tests/conformance/vectors
conformance: $(VENV)/.ready  ## hold recordings of the upstream against this project (VECTORS=DIR)
	@PYTHONPATH=tests $(RUN)/python -m conformance $(VECTORS)

SEEDS ?= 1000
SEED ?= 0
simulate: $(VENV)/.ready  ## simulate hours of two replicas with faults, kills and edits: SEEDS=10000 of them, from SEED=0 on (0.4 s of CPU each)
	@PYTHONPATH=tests/operator nice -n 10 $(RUN)/python -m seeds $(SEED) --count $(SEEDS)

simulate-mutants: $(VENV)/.ready  ## break each invariant on purpose, and search the simulated hour that finds it (SEEDS=1000, 2 to 10 min)
	@PYTHONPATH=tests/operator nice -n 10 $(RUN)/python -m mutants --seeds $(SEEDS)

TREE ?=
walk: $(VENV)/.ready  ## count the files and functions that a reconciliation of one object passes, and lines of code (TREE=DIR: of another checkout; ARGS=--json)
	@$(RUN)/python tests/operator/walk.py $(if $(TREE),--tree '$(TREE)') $(ARGS)

standing: $(VENV)/.ready  ## decide an hour of periods on a real control plane and compare each decision that stands (SECONDS=3600, 240 at least)
	@PYTHONPATH=tests $(RUN)/python -m testbed.build >/dev/null
	STANDING_SECONDS=$(if $(filter command,$(origin SECONDS)),$(SECONDS),3600) $(RUN)/pytest -q -s tests/cluster/test_standing_compared.py

FRESH ?=
mutation: $(VENV)/.ready  ## change core/metrics and core/behavior bit by bit: which change does no test notice? (FRESH=1)
	@PYTHONPATH=tests nice -n 15 $(RUN)/python -m mutation $(if $(FRESH),--fresh)

SECONDS ?= 60
INPUTS ?= 1000000
HARNESS ?=
fuzz: $(VENV)/.ready  ## fuzz the functions that read text from outside: SECONDS=60 and INPUTS=1000000 for each, HARNESS=memory for one
	@$(RUN)/uv pip install --quiet --require-hashes --python $(RUN)/python -r tests/fuzz/requirements.lock
	@PYTHONPATH=tests nice -n 15 $(RUN)/python -m fuzz $(HARNESS) --seconds $(SECONDS) --inputs $(INPUTS)

# Only that of CronHPA differs between the two ranges of Kubernetes.
CRD := cronhpa.io_cronhpas
crds: $(VENV)/.ready  ## write the CRDs of the models to crds/ and into the chart, for both ranges of Kubernetes
	$(RUN)/cronhpa crd --kind CronHPA -o crds/$(CRD).yaml
	$(RUN)/cronhpa crd --kind CronHPA --kubernetes 1.30 -o crds/kubernetes-1.30/$(CRD).yaml
	cp crds/$(CRD).yaml deploy/chart/files/$(CRD).yaml
	cp crds/kubernetes-1.30/$(CRD).yaml deploy/chart/files/$(CRD)-1.30.yaml
	for kind in PlannedEvent ClusterPlannedEvent; do \
		file=cronhpa.io_$${kind,,}s.yaml; $(RUN)/cronhpa crd --kind $$kind -o crds/$$file; \
		cp crds/$$file crds/kubernetes-1.30/$$file; cp crds/$$file deploy/chart/files/$$file; done

reference: $(VENV)/.ready  ## write docs/reference/ from the code
	@$(RUN)/python docs/generate.py

map: $(VENV)/.ready  ## print where things are: each module with its first line, and the lines of code of each room (ROOM=operator)
	@$(RUN)/python docs/map.py $(ROOM)

docs: reference  ## build the documentation site into build/site
	@$(RUN)/python docs/generate.py --site build/docs
	$(RUN)/zensical build --strict --clean

format: $(VENV)/.ready  ## format the code
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix-only --quiet .

demo: $(VENV)/.ready  ## upstream HPA and CronHPA side by side, 6 min (DEMO_SECONDS=60, DEMO_SCHEDULE=0, KUBECONFIG=path)
	@# A KUBECONFIG of the environment is for daily work: only one that is given to make itself is meant.
	@DEMO_KUBECONFIG='$(if $(findstring command,$(origin KUBECONFIG)),$(KUBECONFIG))' PYTHONPATH=tests \
		$(RUN)/python -m testbed.demo

demo-step: $(VENV)/.ready  ## a step from 2 pods to 10 against four autoscalers, a table and a picture, 6 min (STEP_COPIES=4)
	@PYTHONPATH=tests $(RUN)/python -m testbed.step

TOOLS := build/tools
$(TOOLS)/.ready: deploy/tools.lock
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement deploy/tools.lock
	@touch $@

sbom: $(TOOLS)/.ready  ## write build/sbom.json and sbom-slim.json: every package in the images, with hashes (CycloneDX)
	@$(TOOLS)/bin/python deploy/sbom.py deploy/image.lock build/sbom.json
	@$(TOOLS)/bin/python deploy/sbom.py deploy/image-slim.lock build/sbom-slim.json

# --strict: where the advisories cannot be asked for a package, that is a failure and no clean bill.
audit: $(TOOLS)/.ready  ## look for known vulnerabilities of what the locks name (asks pypi.org)
	@for lock in bootstrap.lock requirements.lock deploy/image.lock deploy/tools.lock; do \
		echo $$lock; $(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit 1; done

# An OCI layout of hash-locked packages: no container engine, the same bytes for the same commit. deploy/image.py --help.
IMAGE ?= cronhpa:0.1.0
image: $(VENV)/.ready  ## build the image into build/image and build/image.tar (SLIM=1: without forecasts; EXTRAS=dask,parquet,plot; PLATFORM=amd64)
	@$(RUN)/python deploy/image.py --tag '$(IMAGE)' $(if $(SLIM),--slim) $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(PLATFORM),--platform $(PLATFORM))

kustomize: $(VENV)/.ready  ## write deploy/kustomize/cronhpa.yaml from the chart
	@$(RUN)/python deploy/kustomized.py --helm "$$(PYTHONPATH=tests $(RUN)/python -m testbed.build 2>/dev/null)/helm"

VERSION ?=
release: $(VENV)/.ready  ## state a version everywhere and write the changelog: VERSION=0.2.0; RELEASING.md says what follows
	@$(RUN)/python deploy/release.py prepare '$(VERSION)'

PUBLISHED ?= ghcr.io/cronhpa/cronhpa
artifacts: $(VENV)/.ready sbom  ## build everything that a release publishes into build/release (PUBLISHED=REGISTRY/cronhpa: the image that the chart names)
	@$(RUN)/python deploy/release.py build --image '$(PUBLISHED)' --helm "$$(PYTHONPATH=tests $(RUN)/python -m testbed.build 2>/dev/null)/helm"

clean:  ## remove .venv, caches and build/ (the control plane's cache stays)
	rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help setup lock check test test-slow coverage test-again standing test-long test-faults chart-test unit brute-force conformance mutation fuzz bench bench-fleet bench-peers bench-edge bench-event bench-reaction bench-report bench-forecast bench-forecast-peers bench-methods bench-page simulate simulate-mutants monitoring format crds reference map docs clean demo demo-step sbom audit image kustomize release artifacts
