# Needs make 3.81, a POSIX shell and Python 3.11–3.13. PYTHON=/path/to/python chooses another Python.
.DEFAULT_GOAL := help
.PHONY: help lab demo test check long bench lint brokers notebooks map size locks clean FORCE

PY := .venv/bin/python
NBVAL := --nbval --nbval-current-env --nbval-sanitize-with tests/sanitize.cfg --nbval-cell-timeout 120
PYTEST := $(PY) -m pytest -n 2 --dist loadfile
# What is timed has the machine to itself
GATES := tests/benchmarks/test_gates.py
ALONE := $(PY) -m pytest -p no:nbval -s $(GATES)

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' Makefile

lab: .venv/.learn ## set up, check, open JupyterLab (LAB_ARGS="…" goes to it)
	@sh tools/lab.sh $(LAB_ARGS)

demo: .venv/.learn ## the same set-up, then a tour of half a minute: a record, a shop's groups, a million records on Spark
	@$(PY) tools/demo.py

test: .venv/.develop lint brokers ## every test this machine can run, and what was left out
	$(PYTEST) $(NBVAL) tests notebooks --ignore $(GATES) $(PYTEST_ARGS)
	$(ALONE)

check: .venv/.develop lint ## what to run while working, under 3 minutes
	$(PYTEST) -p no:nbval -m "not java and not browser and not broker" $(PYTEST_ARGS)

long: .venv/.develop ## the long profiles, for a night
	@echo "Long profile: every property test (hypothesis) with 20,000 examples instead of 100, new ones at each run;"
	@echo "every vector changed at every byte; a million random requests to a coordinator; the fuzzer (tests/fuzz) ten minutes."
	@echo "Then logs of ten and a hundred million records, loaded every way that can (20 GB of disk, for a while)."
	KG_PROFILE=long $(PYTEST) --ignore $(GATES) $(PYTEST_ARGS)
	KG_PROFILE=long $(ALONE)

bench: .venv/.develop brokers ## the package beside everything else that loads a log (BENCH_ARGS="--records 10M …")
	$(PY) -m benchmarks $(BENCH_ARGS)

lint: .venv/.develop
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PY) tools/notebooks.py --check

brokers: ## the jars of the brokers that tests start, once, where Maven is there
	@sh tools/brokers.sh

notebooks: .venv/.develop ## the notebooks anew from notebooks/source (LESSONS="00 03": only these)
	$(PY) tools/notebooks.py $(LESSONS)

map: ## the map of the package, also written into docs/architecture.md
	@$(firstword $(wildcard $(PY)) python3) tools/map.py --write

size: ## lines of code of each package
	@$(firstword $(wildcard $(PY)) python3) tools/size.py

# --no-config and the missing index keep this machine's own settings out of the files
COMPILE = env -u PIP_FIND_LINKS .venv/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make locks" $(UPGRADE)

locks: .venv/.learn ## the pins anew, after a change in pyproject.toml (UPGRADE=--upgrade: the newest)
	$(COMPILE) --group setup pyproject.toml -o locks/learn.txt
	$(COMPILE) --group pyproject.toml:develop -c locks/learn.txt -o locks/develop.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --extra java pyproject.toml -c locks/learn.txt -o locks/java.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --extra live pyproject.toml -c locks/learn.txt -o locks/live.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)

clean: ## caches and leftovers; .venv stays
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# The stamp names its folder: a copied or moved .venv, or one whose Python has gone, is made good again.
ifneq ($(shell $(PY) -c 'print(open(".venv/.learn").read())' 2>/dev/null),$(CURDIR))
STALE := FORCE
endif
ifneq ($(PYTHON),)
STALE := FORCE
endif
problem = $(shell PYTHON="$(PYTHON)" sh tools/setup.sh problem)

.venv/.learn: locks/learn.txt pyproject.toml tools/setup.sh $(STALE)
	@$(if $(problem),$(error $(problem)))
	@sh tools/setup.sh learn

.venv/.develop: .venv/.learn locks/develop.txt locks/live.txt
	@sh tools/setup.sh develop
