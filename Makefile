# Two commands are enough: `make run` and `make test`. Each sets up .venv by itself, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# How long, in how many processes and from which seed `make campaign` works.
MINUTES ?= 60
PROCESSES ?= 2
SEED ?= 0

.PHONY: run test check campaign resolve licences format rules convolutions docs pictures notebooks sdist clean

run: $(VENV)/.run
	$(BIN)/varigraph run cora

# A process for every core, each with one thread: on tensors this small more of them only wait.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Generated graphs, networks and options against laws, for as long as asked: make campaign MINUTES=5.
campaign: $(VENV)/.dev
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m campaign \
		--minutes $(MINUTES) --processes $(PROCESSES) --seed $(SEED)

# Whether the set-up can be resolved on all systems that we promise: minutes, needs a package index.
resolve: $(VENV)/.dev
	$(BIN)/python scripts/resolve.py

# The licence of everything that we depend on; refuses what is not permissive and not excepted.
licences: $(VENV)/.dev
	$(BIN)/python scripts/licences.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The table of rules in docs/rules.md, with errors measured anew: about a minute.
rules: $(VENV)/.dev
	$(BIN)/python scripts/rule_table.py

# The table of convolutions in docs/convolutions.md, each against brute force: about two minutes.
convolutions: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/convolutions.py

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

# What is handed on: everything that is tracked, in dist/.
sdist: $(VENV)/.dev
	$(BIN)/python -m hatchling build --target sdist

clean:
	rm -rf $(VENV) runs links site dist
