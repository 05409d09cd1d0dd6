# `make demo` and `make test` do all the set-up they need; nothing is written outside this folder.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint format types fast setup clean help

help:            ## list the targets
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(STAMP)  ## create the virtual environment and install everything

$(STAMP): setup.cfg constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 13) else f"fedaccord needs Python 3.11 or 3.12 (syft 0.9.5 does); this is {v[0]}.{v[1]}. Try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	@echo "installing into $(VENV): about 2 GB, two to five minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[demo,dev]"
	@touch $@

demo: $(STAMP)   ## two datasites train FedCVT on the Adult data; report in out/demo/
	$(BIN)/fedaccord demo --out out/demo --seeds 5

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

fast: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder -m "not slow and not syft" tests

check: lint types fast  ## format, lint, types, fast tests

test: $(STAMP)   ## every test, real servers and the notebooks included
	@# Jupyter's own start of a kernel fails now and then: that alone is tried again, never a test of ours.
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --reruns 1 --only-rerun "Kernel didn't respond" --nbmake tests notebooks

clean:           ## remove the environment and all outputs
	rm -rf $(VENV) out build dist *.egg-info
