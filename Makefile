# Two commands are enough: `make run` and `make test`. Each sets up .venv by itself, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test check format rules docs pictures notebooks clean

run: $(VENV)/.run
	$(BIN)/varigraph run cora

# One thread: on tensors this small more of them only wait for each other.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The table of rules in docs/rules.md, with errors measured anew: about a minute.
rules: $(VENV)/.dev
	$(BIN)/python scripts/rule_table.py

# The documentation as a site, without a warning and without dead links: open site/index.html.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of docs/idea.md, computed on Cora: about a minute.
pictures: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/pictures.py

# The notebooks in examples/, from the scripts, run anew: about a minute; proteins needs $VARIGRAPH_DATA.
notebooks: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/notebooks.py

# torch goes first and pinned, so that nothing after it pulls another build.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(PIP) --editable ".[cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) runs links site
