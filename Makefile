# Two commands are the whole set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers
SPARK := $(VENV)/.spark
MINIMUM := .venv-minimum

.PHONY: demo docs test test-long fuzz test-peers test-spark test-minimum bench notebooks clean

demo: $(INSTALLED)
	$(BIN)/theodolite demo

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# The documentation site into site/, offline, with every warning and dead link an error.
docs: $(INSTALLED)
	$(BIN)/python tools/make_site.py

# The committed results of which `make test` recomputes a part, to every digit.
test-long: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m long

# More than 20,000 made-up inputs, files and command lines, counted at the end; `make test` tries some of them.
# The plugin of schemathesis would hide the case that failed.
fuzz: $(INSTALLED)
	THEODOLITE_FUZZ=long OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -p no:schemathesis tests/fuzz

# The same scores in other libraries: pytorch-ood, faiss.
test-peers: $(PEERS)
	$(BIN)/pytest -m peers tests/peers

# The recipe of docs/serving.md on a Spark of this machine; Java must be there, else it is skipped.
test-spark: $(SPARK)
	$(BIN)/pytest -rs -m spark tests/guard/test_spark.py

# The core alone, with the oldest packages that it declares; what needs an extra is skipped and says which. Old
# packages call what newer ones have deprecated: their affair. Graphs are PyTorch's, which is as new as ever.
test-minimum: $(MINIMUM)/.installed
	OMP_NUM_THREADS=1 $(MINIMUM)/bin/python -m pytest -n 2 --dist worksteal -W default::DeprecationWarning \
	  tests/core tests/data tests/detectors tests/guard tests/cli tests/report tests/test_public_names.py \
	  --ignore tests/guard/test_graphs.py

# The table of docs/performance.md; ONLY="ora fit" runs some of the scripts and leaves the page alone.
bench: $(PEERS)
	$(BIN)/python speed/suite.py $(ONLY)

# The notebooks of docs/notebooks, run anew; what they give is kept in them.
notebooks: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(PEERS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[peers]'
	touch $@

$(SPARK): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[spark]'
	touch $@

$(MINIMUM)/.installed: pyproject.toml constraints-minimum.txt
	test -x $(MINIMUM)/bin/python || $(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python -m pip install --quiet -c constraints-minimum.txt -e . \
	  pytest pytest-xdist hypothesis scikit-learn scipy
	touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
