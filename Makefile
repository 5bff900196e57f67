# Two commands are the whole set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := $(VENV)/.peers

.PHONY: demo test test-peers speed clean

demo: $(INSTALLED)
	$(BIN)/theodolite demo

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# The same scores in other libraries: pytorch-ood, faiss.
test-peers: $(PEERS)
	$(BIN)/pytest -m peers tests/peers

# Each script runs, even after one that broke a promise.
speed: $(PEERS)
	status=0; for script in speed/*_speed.py "speed/bench_cost.py --scale 0.1"; do \
	  echo "== $$script"; $(BIN)/python $$script || status=1; \
	done; exit $$status

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(PEERS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[peers]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
