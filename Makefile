# Everything a user or a developer runs. `make demo` and `make test` set up what they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv lock generate demo demo-down test lint unit api launcher cluster bench clean

# Where this is set, each start of Python would compile torch anew.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
SYNCED := $(VENV)/.synced
# NVRx's wheels name glibc 2.39 although they run on Debian 12's 2.36 (docs/fidelity.md).
PLATFORM := --python-platform x86_64-manylinux_2_39
COMPILE := $(UV) pip compile --quiet --generate-hashes --no-header --no-emit-index-url \
	--no-annotate --python-version 3.12 $(PLATFORM)

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(SYNCED): requirements/dev.txt requirements/bootstrap.txt pyproject.toml
	@test -x $(PY) || python3.12 -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements/bootstrap.txt
	@$(UV) pip sync --quiet --python $(PY) --require-hashes $(PLATFORM) requirements/dev.txt
	@$(UV) pip install --quiet --python $(PY) --no-deps --editable .
	@touch $@

venv: $(SYNCED) ## Python environment in .venv

lock: venv ## Resolve pyproject.toml anew into requirements/
	echo "uv==$$($(UV) --version | cut -d' ' -f2)" | $(COMPILE) - -o requirements/bootstrap.txt
	for extra in operator trainer dev; do \
		$(COMPILE) --upgrade --extra $$extra pyproject.toml -o requirements/$$extra.txt; done

generate: venv ## Files made from code: the CRD, its copy in the chart, golden manifests, pages
	$(PY) -m rtj_api.crd --write .
	$(PY) -m tests.unit.render.golden --write
	$(PY) -m tests.api.chart_golden --write
	$(PY) -m docs.generate --write

demo: venv ## Cluster, images, operator, a job, three faults, a report (first run: about 11 minutes)
	@$(PY) -m demo

demo-down: venv ## Remove every trace of the demo's cluster
	@$(PY) -m localcluster down

lint: venv ## Format, lint, types, import contract
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/pyright
	$(VENV)/bin/lint-imports

unit: venv ## Pure functions, tables, property tests
	$(PY) -m pytest tests/unit

api: venv ## Real etcd and API server
	$(PY) -m pytest tests/api

launcher: venv ## Real ft_launcher and nvrx-control on loopback
	$(PY) -m pytest tests/launcher

cluster: venv ## Real kubelets, chart, images and faults (root)
	$(PY) -m pytest tests/cluster

test: lint ## Everything
	$(PY) -m pytest tests

bench: venv ## All figures into bench/results: the main job's and a large fleet's (about 40 minutes)
	@missed=0; \
	$(PY) -m bench.main_job || missed=1; \
	$(PY) -m bench.fleet --result bench/results/fleet.json || missed=1; \
	exit $$missed
