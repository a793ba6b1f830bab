# make lab     JupyterLab with the quickstart notebook
# make test    everything that CI runs, with a summary of counts at the end
# Needs Python 3.11 or newer; `make PYTHON=/path/to/python3.12 ...` chooses one.

VENV ?= .venv
BIN = $(VENV)/bin
NOTEBOOK ?= notebooks/00_quickstart.ipynb
PIP = $(BIN)/python -m pip -qq --disable-pip-version-check --no-input

# The first Python that is new enough and can make an environment.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
  $$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)

.PHONY: lab test screenshots benchmarks peers clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer with its venv module is missing: install it, or name one with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$(PYTHON) is not Python 3.11 or newer with its venv module" >&2; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# A stamp per set of extras; both are remade when the requirements change.
$(VENV)/.installed-nb: pyproject.toml | $(BIN)/python
	@[ -e $(VENV)/.installed-dev ] && [ $(VENV)/.installed-dev -nt pyproject.toml ] || { echo "Installing kestrel-nb with JupyterLab ..." && $(PIP) install -e '.[nb]'; }
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing kestrel-nb with what its tests need ..."
	@$(PIP) install -e '.[dev]'
	@touch $@

lab: $(VENV)/.installed-nb
	@$(BIN)/python .ci/lab.py $(NOTEBOOK)

test: $(VENV)/.installed-dev
	@$(BIN)/python .ci/check.py

screenshots: $(VENV)/.installed-dev
	KESTREL_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -q

benchmarks: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/search.py

# Beside other frameworks, each in an environment of its own (1.2 GB, once); the tables come out at the end.
peers: $(BIN)/python
	KESTREL_NB=$(CURDIR) $(BIN)/python benchmarks/kit/bench.py setup
	$(BIN)/python benchmarks/kit/bench.py run

clean:
	rm -rf $(VENV) benchmarks/kit/.venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
