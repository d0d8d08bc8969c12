# Everything runs from a bare clone: the first target makes .venv with a Python >= 3.11 it finds by itself.
.PHONY: help demo test check lint layers types docs coverage chaos format hooks lock clean
.DEFAULT_GOAL := help

# Versions that were tested together. The newest ones instead: make venv CONSTRAINTS=
CONSTRAINTS := constraints.txt
# What `make coverage` runs: make coverage TESTS=tests/cli
TESTS := tests
# What `make chaos` does: make chaos SEED=3 KILLS=100 INPUTS=50000 REPORT=docs/chaos.md
SEED := 0
KILLS := 1000
INPUTS := 1000000
REPORT :=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := src tests examples

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(INSTALLED) ## optimise a built-in problem, print the result, write a picture
	$(BIN)/fidelium demo

test: check ## everything that must pass: checks, then tests
	$(BIN)/python -m pytest

check: lint types layers docs ## lint, formatting, types, import layers, links of the documentation

lint: $(INSTALLED) ## lint and formatting alone
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(INSTALLED) ## types alone
	$(BIN)/basedpyright

layers: $(INSTALLED) ## import layers alone
	$(BIN)/lint-imports

docs: $(INSTALLED) ## links and names in the documentation alone
	$(BIN)/python -m pytest -n 0 -q tests/test_documentation.py

coverage: $(INSTALLED) ## run the tests, write htmlcov/index.html, print the covered share of the lines
	$(BIN)/python -m pytest --cov --cov-report=html --cov-report= $(TESTS)
	@echo "covered by $(TESTS): $$($(BIN)/coverage report --format=total) % of the lines; which ones: htmlcov/index.html"

chaos: $(INSTALLED) ## kill processes and servers at random, try hostile inputs, print what was lost; SEED= KILLS= INPUTS=
	$(BIN)/python -m tests.chaos --seed $(SEED) --kills $(KILLS) --inputs $(INPUTS) $(addprefix --report ,$(REPORT))

format: $(INSTALLED) ## format the code and fix what lint can fix
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

hooks: $(INSTALLED) ## run the checks before every commit (pre-commit)
	$(BIN)/pre-commit install

lock: $(INSTALLED) ## write constraints.txt: the newest versions of everything that development needs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --report $(VENV)/lock.json '.[dev]'
	@$(BIN)/python -c "import json, sys; \
	  found = {each['metadata']['name']: each['metadata']['version'] for each in json.load(sys.stdin)['install']}; \
	  print('# Written by make lock. Versions for development; what fidelium needs is in pyproject.toml.'); \
	  print(*sorted((f'{name}=={version}' for name, version in found.items() if name != 'fidelium'), key=str.lower), sep='\n')" \
	  < $(VENV)/lock.json > constraints.txt

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) build dist htmlcov .coverage* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: venv
venv: $(INSTALLED) ## make .venv and install into it (the other targets do this by themselves)

# The interpreter is run, not only looked up: a version manager's shim may exist and still refuse.
# The stamp is written last, so an interrupted install is done again.
$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@set -e; \
	if ! [ -x $(BIN)/python ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  found=; \
	  for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "fidelium needs Python 3.11 or newer, and none was found on the PATH: install one and run make again." >&2; exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$($$found --version)"; \
	  rm -rf $(VENV); \
	  $$found -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$$found cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv) and run make again." >&2; exit 1; }; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS)) --editable '.[dev]'
	@touch $@
