# The commands of this project, for people and CI alike. Needs only Python, pip and make.
# Each step leaves a stamp in the environment, so that a second run starts at once.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# With pip's own progress where somebody watches it.
PIP_SHOWN = $(BIN)/python -m pip --disable-pip-version-check $$(test -t 1 || echo --quiet)
WORKERS ?= logical
PYTEST_ARGS ?=
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)
# The parts of the suite that `make test-rest` runs; see tests/support/marking.py.
PART ?= rest
SOURCES := kogniterm tests benchmarks docs packaging
# Else pytest compiles the asserts of all tests in each run, which takes 14 seconds of CPU time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo announce weights test test-core test-all test-rest test-needs offer-programs test-programs test-machines check house types format faults plant-faults bench gate eval docs clean
.DELETE_ON_ERROR:

help:
	@echo "make install   KogniTerm, its extras and the development tools, in $(VENV)"
	@echo "make demo      install with the local model, download its weights, do a real task,"
	@echo "               play the tour"
	@echo "make test      the tests that need nothing else, and a dozen journeys at a terminal,"
	@echo "               in under five minutes on two cores"
	@echo "make test-core the fast tests in a copy without add-ons"
	@echo "make test-all  every test, with the weights and servers that they need"
	@echo "make test-programs"
	@echo "               installs the system's programs that some tests drive"
	@echo "make test-machines"
	@echo "               the demo and the tests on minimal Debian systems, as root"
	@echo "make check     lint, format, spelling, types and the house gates"
	@echo "make format    put the code in the house format"
	@echo "make faults    the long fault-injection runs"
	@echo "make plant-faults  SEED=1: which of 60 planted faults the fast tests see"
	@echo "make bench     KogniTerm beside its floors, as ratios, written to benchmarks/results;"
	@echo "                PEERS=1 measures codex and Claude Code, from npm, as well"
	@echo "make gate      fails when KogniTerm takes more CPU time than benchmarks/limits.toml allows"
	@echo "make eval      the local model and the plain loop over the table of tasks"
	@echo "make docs      the generated pages and .env.example"
	@echo "make clean     remove everything that can be made again"

$(VENV)/.made:
	@PYTHON="$(PYTHON)" sh scripts/make-venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml | announce
	@test -e $(VENV)/.installed || $(PIP_SHOWN) install --editable '.[local-model]'
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing KogniTerm, its extras and the development tools …"
	@$(PIP) install --editable '.[all,dev]'
	@touch $@

install: $(VENV)/.installed

demo: announce $(VENV)/.demo
	@sh scripts/demo $(BIN)/kogniterm

announce:
	@sh scripts/demo --announce $(VENV)/.demo
	@echo
	@echo "1. The packages"

weights: $(VENV)/.installed
	@$(BIN)/kogniterm models pull

# `make check` runs the tests of the house.
test: install
	$(PYTEST) --dist worksteal --part fast --ignore=tests/house $(PYTEST_ARGS)

# What is left when every add-on is deleted passes its own tests, in a copy of this checkout. Most
# tests of the house compare pages with the whole product; these are about its code.
CORE_TESTS := tests --ignore-glob='tests/house/test_[!gs]*' --ignore-glob='tests/house/test_size*'
test-core: install
	rm -rf build/core
	$(BIN)/python -m tests.support.core_copy build/core
	cd build/core && .venv/bin/python -m pytest -n $(WORKERS) --dist worksteal --part fast $(CORE_TESTS) $(PYTEST_ARGS)

test-all: offer-programs test-needs
	$(PYTEST) --dist loadgroup --figures=.pytest_cache/figures.json $(PYTEST_ARGS)

test-rest: test-needs
	$(PYTEST) --dist loadgroup --ignore=tests/house $(addprefix --part ,$(PART)) --figures=.pytest_cache/figures.json $(PYTEST_ARGS)

# A folder that has the weights already may be named instead.
test-needs: install $(if $(KOGNITERM_TEST_WEIGHTS),,weights)

offer-programs:
	@sh scripts/test-programs

test-programs:
	@sh scripts/test-programs --install

test-machines:
	@bash scripts/test-machines $(SUITES)

# The types take one core as long as everything else takes another.
check: install
	@$(MAKE) --no-print-directory -j2 house types

house:
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/codespell kogniterm tests docs packaging *.md
	.ci/commit-msg --all
	$(BIN)/python -m pytest -q tests/house tests/ui/test_locale.py

types:
	$(BIN)/mypy
	$(BIN)/mypy .ci/wheel_contents.py

format: install
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

plant-faults: install
	$(BIN)/python scripts/plant_faults.py --seed $(or $(SEED),1) \
		--entered .pytest_cache/entered.json --out .pytest_cache/faults.json

faults: install
	KOGNITERM_TEST_FAULTS=all $(BIN)/python -m pytest -n $(WORKERS) tests/faults $(PYTEST_ARGS)

bench: install
	$(BIN)/python -m benchmarks.bench $(or $(BENCH_ARGS),--write) $(if $(PEERS),--peers)
	$(BIN)/python -m benchmarks.delegated_steps
	$(BIN)/python -m benchmarks.recipes
	$(BIN)/python -m benchmarks.keyboard
	$(BIN)/python -m benchmarks.side_by_side
	$(BIN)/python -m benchmarks.task_queue

gate: install
	$(BIN)/python -m benchmarks.gate $(GATE_ARGS)

eval: install weights
	$(BIN)/python -m benchmarks.eval $(or $(EVAL_ARGS),--write)

docs: install
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
