# Every target sets up what it needs: a Python 3.11+ and make are enough to start.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?= demo --console=0
E2E ?= 1
# Whole files in the order of tests/conftest.py, longest first.
PYTEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --durations=10
COMPUTING := tests/unit tests/property tests/parity tests/perf
DIST ?= dist
IMAGE ?= stowplan:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)$(if $(VARIANT),-$(VARIANT))
export E2E

.PHONY: help
help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 24

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Stowplan needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use with make PYTHON=python3.12 ...")'
	@echo "Setting up $(VENV) (once, one to two minutes)..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

.PHONY: setup
setup: $(READY) ## Create .venv with the pinned dependencies

.PHONY: controlplane
controlplane: $(READY) ## Build etcd, kube-apiserver, kubectl, helm, ... for the e2e tests (once)
	@if [ "$(E2E)" = 0 ]; then \
	  echo "E2E=0: not building the control plane; nothing is tested against a real API server."; \
	else $(BIN)/python -m stowplan.controlplane build; fi

.PHONY: run
run: $(READY) ## The demo, with the web console; ARGS="run" serves the cluster of KUBECONFIG
	@$(BIN)/stowplan $(ARGS)

# The mini-kube-scheduler's name for it; its program is the scenario, and you may give your own.
ON ?= real
SCENARIO ?= examples/scenarios/mini_kube_scheduler.py
SCHEDULER ?=
.PHONY: start
start: $(if $(filter real,$(ON)),controlplane,$(READY)) ## A scenario on the real control plane; ON=virtual takes a second; SCENARIO=my.py SCHEDULER=my_scheduler.py
	@$(BIN)/stowplan $(if $(SCHEDULER),learn play $(SCHEDULER) --scenario,simulate) $(SCENARIO) --on $(ON)

.PHONY: check
check: lint types ## The inner loop, under three minutes: lint, types, unit tests, a tenth of the property tests' examples
	@EXAMPLES_SHARE=0.1 PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -m "not slow" -n 2 --dist worksteal tests/unit tests/property

.PHONY: test
test: lint types controlplane ## Everything: lint, types, and all tests; E2E=0 leaves out the control plane
ifdef PYTEST_ARGS
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest $(PYTEST_ARGS)
else
	@# What only computes comes first, two files at a time: it needs no server, and fails sooner.
	@# Property tests run in processes of their own, as in `make fuzz`.
	@$(PYTEST) -n 2 tests/property
	@$(PYTEST) -n 2 $(filter-out tests/property,$(COMPUTING))
	@# The rest waits for servers, leases and timers most of the time: four files at a time.
	@$(PYTEST) -n 4 $(patsubst %,--ignore=%,$(COMPUTING))
endif
	@if [ "$(E2E)" = 0 ]; then echo "E2E=0: the e2e tests, and all that needs a real API server, were NOT run."; fi

# Not part of `make test`: measuring coverage doubles its time.
.PHONY: coverage
coverage: controlplane ## All tests once more with branch coverage, one hour; COVER="tests/unit tests/property" for a part
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest --cov --cov-report=term -n 2 --dist loadfile $(COVER)

.PHONY: e2e
e2e: controlplane ## Only the tests against the real control plane
	@$(BIN)/python -m pytest -m e2e $(PYTEST_ARGS)

.PHONY: parity
parity: controlplane ## Random cases beside kube-scheduler's own plugins; N=10000 SEQUENCES=200 DEVICES=10000 HISTORIES=200 SEED=1
	@$(BIN)/python -m tests.parity $(if $(N),--cases $(N)) $(if $(SEQUENCES),--sequences $(SEQUENCES)) $(if $(DEVICES),--device-cases $(DEVICES)) $(if $(HISTORIES),--device-histories $(HISTORIES)) $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.parity.cel $(if $(N),--selectors $(N)) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz
fuzz: $(READY) ## Random examples for property tests, random bytes for readers; MINUTES=60 SEED=1 FUZZ_INPUTS=100000 READER=yaml
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps --require-hashes -r requirements/fuzz.txt 2>/dev/null || true
	@$(BIN)/python -m tests.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(FUZZ_INPUTS),--inputs $(FUZZ_INPUTS)) $(if $(READER),--reader $(READER))

.PHONY: fault-simulation
fault-simulation: $(READY) ## Whole schedulers in virtual time under seeded faults; RUNS=5000 SEED=1 LONG=1
	@$(BIN)/python -m stowplan.sim.faults --runs $(or $(RUNS),1000) --seed $(or $(SEED),1) $(if $(LONG),--long)

.PHONY: fuzz-extender
fuzz-extender: $(READY) ## Send N bodies of every kind of junk to an extender; N=10000
	@EXTENDER_BODIES=$(or $(N),10000) $(BIN)/python -m pytest -q --hypothesis-profile=explore tests/property/test_extender_bodies.py

.PHONY: docs
docs: $(READY) ## Write docs/parity.md, docs/flags.md, the Grafana dashboard and the Helm chart's copies of files anew
	@$(BIN)/python -m tools.parity_page
	@$(BIN)/python -m tools.flags_page
	@$(BIN)/python -m tools.man_pages
	@$(BIN)/python -m tools.dashboard
	@$(BIN)/python -m tools.chart

.PHONY: console-pictures
console-pictures: $(READY) ## Take the pictures of docs/console.md again, in Chromium
	@CONSOLE_PICTURES=1 $(BIN)/python -m pytest -q --no-cov tests/integration/test_console_pages.py tests/integration/test_console_try_page.py tests/integration/test_shadow_console.py -k "test_every_page or templates or page_shadow"

.PHONY: rbac
rbac: controlplane ## Record what the schedulers ask of an API server, and write the roles of deploy/ from it
	@RECORD_RBAC=1 $(BIN)/python -m pytest -q --no-cov tests/e2e/test_recorded_rights.py
	@$(BIN)/python -m tools.rbac

.PHONY: lint
lint: $(READY) ## ruff and the layer contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

.PHONY: format
format: $(READY) ## Let ruff put the code in shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: types
types: $(READY) ## mypy, strict
	@$(BIN)/mypy
	@$(BIN)/mypy tests tools examples

.PHONY: bench
bench: controlplane ## The headline set beside kube-scheduler and bare binding requests; goes on where it was cut
	@$(BIN)/stowplan bench headline --report docs/performance.md --html bench-results/headline.html $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: controlplane ## Three small workloads, one round, under 5 minutes
	@$(BIN)/stowplan bench quick --rounds 1 $(BENCH_ARGS)

.PHONY: bench-waiting
bench-waiting: controlplane ## How soon a waiting pod gets a free place, what waiting costs, the search for victims
	@$(BIN)/python -m stowplan.bench.waiting

.PHONY: bench-extender
bench-extender: $(READY) ## The extender service beside Flask + gunicorn, 7 minutes; BENCH_ARGS=--quick for one
	@$(BIN)/python -m stowplan.bench.extender $(BENCH_ARGS)

.PHONY: soak
soak: controlplane ## Half an hour of churn on 2,000 nodes: memory flat, cache true; SOAK_ARGS="--minutes 5 --nodes 500"
	@$(BIN)/python -m stowplan.bench.soak $(SOAK_ARGS)

.PHONY: chaos
chaos: controlplane ## Kills, freezes, cuts, storms on two schedulers and a real control plane, then an audit; SEED=1 MINUTES=34 CHAOS_ARGS="--scheduler kube-scheduler"
	@$(BIN)/python -m tools.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),3) $(CHAOS_ARGS)

.PHONY: freeze
freeze: controlplane ## Leaders stopped past their lease and woken, audited from etcd's history; FREEZE_ARGS="--minutes 1"
	@$(BIN)/python -m tools.chaos --only freeze --nodes 30 --minutes 8 $(FREEZE_ARGS)

.PHONY: tracing-collector
tracing-collector: controlplane ## The spans of a scheduler on a real OpenTelemetry collector, which is built first, 5 minutes
	@$(BIN)/python -m stowplan.controlplane build --only otelcol
	@$(BIN)/python -m pytest --no-cov tests/integration/real_collector.py $(PYTEST_ARGS)

.PHONY: perf-integration
perf-integration: controlplane ## Kubernetes' own small scheduler_perf workloads on the real control plane, 20 minutes; a part: PYTEST_ARGS="-k dra/"
	@$(BIN)/python -m pytest --no-cov tests/e2e/perf_integration.py $(PYTEST_ARGS)

.PHONY: lessons-real
lessons-real: controlplane ## The solutions of all lessons on the real control plane, 10 minutes
	@LESSONS_ON=real $(BIN)/python -m pytest --no-cov tests/integration/test_lessons.py -k solution_passes -o timeout=600 $(PYTEST_ARGS)

.PHONY: live-parity
live-parity: controlplane ## N pods on the real control plane, Stowplan beside kube-scheduler; N=500 SEED=1 LIVE_ARGS=--preemption
	@$(BIN)/python -m tests.e2e.live_parity $(if $(N),--pods $(N)) $(if $(SEED),--seed $(SEED)) $(LIVE_ARGS)

# A package is built again only if something that is packed has changed, or what was asked for.
PACKED = $(shell find src requirements tools/package.py tools/pex_preamble.py $(PLUGINS) -type f -not -name '*.pyc')
PACK_FLAGS = $(if $(PYTHONS),--pythons "$(PYTHONS)") $(if $(PLUGINS),--plugins "$(PLUGINS)") $(if $(MACHINE),--machine "$(MACHINE)")
$(DIST)/.pack-flags: FORCE
	@mkdir -p $(DIST); echo '$(PACK_FLAGS)' | cmp -s - $@ || echo '$(PACK_FLAGS)' > $@

.PHONY: FORCE
FORCE:

$(DIST)/%.pex: $(READY) $(DIST)/.pack-flags $(PACKED) pyproject.toml
	@$(BIN)/python -m tools.package $@ $(PACK_FLAGS)

.PHONY: package
package: $(DIST)/stowplan.pex ## dist/stowplan.pex, all in one file; PYTHONS="3.11 3.12" for fewer versions of Python; MACHINE=arm64; PLUGINS=DIR packs yours
	@echo "$< is up to date."

# The WCA scheduler's name for it: the file runs `stowplan extender`.
.PHONY: wca_scheduler_package
wca_scheduler_package: $(DIST)/wca-scheduler.pex
	@echo "$< is up to date."

# Looks for a container engine before it packs, which takes minutes.
.PHONY: image-engine
image-engine:
	@tools/image.sh check

.PHONY: image
image: image-engine ## An OCI image of the package, by docker or buildah; VARIANT=static-pod for kubeadm's manifest; IMAGE=stowplan:0.1.0 BASE=python:3.13-slim MACHINE=arm64 PLUGINS=DIR
	@$(MAKE) --no-print-directory package
	@tools/image.sh $(DIST)/stowplan.pex $(IMAGE) $(BASE)

.PHONY: wca_scheduler_docker_image
wca_scheduler_docker_image: image-engine
	@$(MAKE) --no-print-directory wca_scheduler_package
	@tools/image.sh $(DIST)/wca-scheduler.pex wca-scheduler:latest $(BASE)

.PHONY: release
release: $(READY) ## All artefacts of a release with checksums, in dist/release; MACHINES="x86_64 aarch64" BASE=python:3.13-slim IMAGES=0
	@$(BIN)/python -m tools.release --output $(DIST)/release $(if $(MACHINES),--machines "$(MACHINES)") $(if $(BASE),--base $(BASE)) $(if $(filter 0,$(IMAGES)),--no-images)

.PHONY: requirements
requirements: $(READY) ## Pin the dependencies anew
	@$(BIN)/python -m pip install --quiet uv
	@PATH="$(abspath $(BIN)):$$PATH" requirements/compile.sh --upgrade

.PHONY: clean
clean: ## Remove the .venv and everything that was built in the checkout
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis fuzz-failures .coverage .coverage.* bench-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
