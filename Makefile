# make quickstart   a reranker trained and evaluated on this machine, in minutes
# make test         everything that a change must pass
# make audit        known vulnerabilities of the pinned versions; asks the package index, so it is no part of test
#
# Variables: VENV (the virtual environment, .venv), PYTHON (what makes it, python3),
#            ARGS (passed on: `make quickstart ARGS="seed=7"`, `make test ARGS="tests/models -x"`).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.PHONY: quickstart test venv lint types imports audit clean
.DEFAULT_GOAL := quickstart

VENV := .venv
PYTHON := python3
ARGS :=

IN_VENV = "$(VENV)/bin/python" -m
INSTALL = $(IN_VENV) pip install --disable-pip-version-check -c constraints.txt
REQUIREMENTS := setup.py pyproject.toml constraints.txt instruct_distill/version.py

# Every value that `accelerate launch` would otherwise choose, and warn of. Without the number of threads it
# would choose one; torch's own choice is the number of cores.
LAUNCH = $(IN_VENV) accelerate.commands.launch --num_processes 1 --num_machines 1 --mixed_precision no \
	--dynamo_backend no --num_cpu_threads_per_process \
	"$$("$(VENV)/bin/python" -c 'import torch; print(torch.get_num_threads())')"

quickstart: $(VENV)/.quickstart
	$(LAUNCH) train.py recipes/quickstart.yaml $(ARGS)

test: lint types imports
	$(IN_VENV) pytest -q $(ARGS)

venv: $(VENV)/.test

lint: $(VENV)/.test
	$(IN_VENV) ruff format --check .
	$(IN_VENV) ruff check .

types: $(VENV)/.test
	$(IN_VENV) mypy

imports: $(VENV)/.test
	"$(VENV)/bin/lint-imports"

# In an environment of its own: what it needs is nothing that this library runs with. A version that the index
# knows nothing of is an error, and not passed over.
audit: $(VENV)-audit/bin/pip-audit
	"$<" --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

$(VENV)-audit/bin/pip-audit:
	"$(PYTHON)" -m venv "$(VENV)-audit"
	"$(VENV)-audit/bin/python" -m pip install --disable-pip-version-check --quiet pip-audit==2.10.1

# A stamp is newer than what it was installed from: nothing is installed again until that changes.
$(VENV)/.quickstart: $(REQUIREMENTS) | $(VENV)/bin/pip
	$(INSTALL) -e '.[gguf]'
	touch "$@"

$(VENV)/.test: $(REQUIREMENTS) | $(VENV)/bin/pip
	$(INSTALL) -e '.[dev,gguf]'
	touch "$(VENV)/.quickstart" "$@"

# Each missing tool is named before anything is made; Debian and Ubuntu leave ensurepip out of python3.
$(VENV)/bin/pip:
	@stop () { printf 'make: %s\n' "$$1" >&2; exit 1; }
	command -v git > /dev/null \
		|| stop "git is not installed; install it (Debian, Ubuntu: apt install git)"
	command -v "$(PYTHON)" > /dev/null \
		|| stop "$(PYTHON) is not installed; install Python 3.10 or newer, or name one: make PYTHON=/path/to/python3.11"
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| stop "$$("$(PYTHON)" --version 2>&1) is too old; Python 3.10 or newer is needed, name one: make PYTHON=/path/to/python3.11"
	"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null \
		|| stop "$(PYTHON) cannot make virtual environments; install its venv module (Debian, Ubuntu: apt install python3-venv)"
	"$(PYTHON)" -m venv "$(VENV)"

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	for each in "$(VENV)" "$(VENV)-audit"; do
		if [ -e "$$each/pyvenv.cfg" ]; then rm -rf "$$each"; fi
	done
