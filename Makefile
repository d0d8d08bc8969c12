# Everything runs from a bare clone: the first target makes .venv with a Python >= 3.11 it finds by itself.
.PHONY: help demo test check format clean
.DEFAULT_GOAL := help

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

check: $(INSTALLED) ## lint, formatting, types, import layers
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(INSTALLED) ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: venv
venv: $(INSTALLED) ## make .venv and install into it (the other targets do this by themselves)

# The interpreter is run, not only looked up: a version manager's shim may exist and still refuse.
# The stamp is written last, so an interrupted install is done again.
$(INSTALLED): pyproject.toml
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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
