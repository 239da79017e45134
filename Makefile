# Needs make 3.81, a POSIX shell and Python 3.11–3.13. PYTHON=/path/to/python chooses another Python.
.DEFAULT_GOAL := help
.PHONY: help lab demo test test-all ready check long bench lint brokers notebooks workshop handbook site slides size net locks clean wheelhouse FORCE

PY := .venv/bin/python
NBVAL := --nbval --nbval-current-env --nbval-sanitize-with tests/sanitize.cfg --nbval-cell-timeout 120
# The tests start Spark about thirty times. With these options, the start of its JVM takes a quarter of the CPU time.
SPARK_CLASSES := .venv/spark-classes.jsa
SPARK_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -XX:SharedArchiveFile='$(CURDIR)/$(SPARK_CLASSES)'
# Two workers. Each takes whole files, in the order of tests/conftest.py: the slow files first. They keep the compiled
# tests in .venv, also where the environment says that Python keeps nothing: compiling takes half of a collection.
CACHE := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX='$(CURDIR)/.venv/pycache'
PYTEST := $(CACHE) SPARK_SUBMIT_OPTS="$(SPARK_JVM)" $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# The timed gates need the whole machine, so they run alone.
GATES := tests/benchmarks/test_gates.py
RUN_GATES := $(PY) -m pytest -p no:nbval -s $(GATES)
OUTSIDE := broker or browser or cluster or setup or thorough

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' Makefile

lab: .venv/.learn .venv/.engine ## set up, check, open JupyterLab (with LAB_ARGS="…")
	@sh tools/lab.sh $(LAB_ARGS)

demo: .venv/.learn .venv/.engine ## set up, then a tour of half a minute: a record, a shop's groups, a million records on Spark
	@$(PY) tools/demo.py

test: .venv/.develop ready ## every test that needs no broker, browser, cluster, second set-up or more time, under 10 minutes with the set-up
	$(PYTEST) $(NBVAL) -m "not ($(OUTSIDE))" notebooks tests $(PYTEST_ARGS)

test-all: .venv/.develop .venv/.engine brokers site ## what `make test` leaves out: brokers, the browser, Spark clusters, the crate, many more logs, a second set-up, timed gates
	$(PYTEST) -p no:nbval -m "$(OUTSIDE)" tests --ignore $(GATES) $(PYTEST_ARGS)
	$(RUN_GATES)
	$(PY) tools/engine.py test

# The checks run beside the tests; what they print comes last. No test of these folders is quick.
NOT_QUICK := --ignore=tests/broker --ignore=tests/browser --ignore=tests/site
check: .venv/.develop .venv/.engine ## the quick tests and the checks, to run while you work, under 90 seconds
	@make --no-print-directory -o .venv/.develop lint > .venv/lint.log 2>&1 & lint=$$!; \
	KG_PROFILE=quick $(PYTEST) -p no:nbval -m "not ($(OUTSIDE) or java or fuzz or slow)" tests $(NOT_QUICK) $(PYTEST_ARGS); \
	tests=$$?; \
	wait $$lint || { cat .venv/lint.log; exit 1; }; exit $$tests

long: .venv/.develop .venv/.engine brokers site ## the long profiles, for a night
	@echo "The long profile: every property test (hypothesis) has 20,000 new examples instead of 100."
	@echo "It changes every byte of every vector, sends a million random requests to a coordinator,"
	@echo "and fuzzes (tests/fuzz) for 75 minutes, and all commands for an hour."
	@echo "It looks for new releases of Kafka, and says what they change."
	@echo "Then it loads logs of ten and a hundred million records in every way. This needs 20 GB of disk for a while."
	KG_PROFILE=long $(PYTEST) tests --ignore $(GATES) $(PYTEST_ARGS)
	$(PY) tools/new_release.py
	$(PY) -m tests.fuzz.commands --seconds 3600 --seed $$(date +%s)
	KG_PROFILE=long $(RUN_GATES)

bench: .venv/.develop .venv/.engine brokers ## compare the package with everything else that loads a log (BENCH_ARGS="--records 10M …")
	$(PY) -m benchmarks $(BENCH_ARGS)

# The checks and the start of a JVM need one core each.
ready: .venv/.develop .venv/.engine
	@$(MAKE) --no-print-directory -j 2 -o .venv/.develop lint $(SPARK_CLASSES)

$(SPARK_CLASSES): .venv/.develop
	@SPARK_SUBMIT_OPTS="$(SPARK_JVM)" $(PY) -m tests.spark.archive_classes $@

lint: .venv/.develop
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PY) tools/style.py
	$(PY) tools/size.py
	$(PY) tools/notebooks.py --check
	$(PY) tools/engine.py lint

brokers: ## download the jars of the brokers that the tests start, with Maven (KAFKA=4.3.1: only this one)
	@sh tools/brokers.sh $(KAFKA)

notebooks: .venv/.develop ## rebuild the notebooks from notebooks/source (LESSONS="00 03": only these)
	$(PY) tools/notebooks.py $(LESSONS)

site: .venv/.site ## build the web edition into build/site: the solved lessons, the documents, the reference
	$(PY) tools/site.py

slides: .venv/.site ## write build/slides: slides of the lessons, for a projector
	@$(PY) tools/slides.py

workshop: .venv/.learn ## write build/workshop: a clean copy of the lessons, for the participants of a workshop
	@$(PY) tools/workshop.py

wheelhouse: .venv/.learn .venv/.engine ## write build/wheelhouse, from which laptops install without a network (WHEELHOUSE_ARGS="--java …")
	@$(PY) tools/wheelhouse.py $(WHEELHOUSE_ARGS)

handbook: .venv/.develop ## write docs/handbook from the declarations in the code and in docs/facts
	$(PY) tools/handbook.py

net: .venv/.develop ## compare what every command answers with a commit (BASE=COMMIT; NEW=COMMIT: instead of this folder)
	@$(PY) tools/net.py compare $(or $(BASE),$(error give BASE=COMMIT)) $(or $(NEW),worktree)

size: ## print the lines of code of each package, and fail if one is above its ceiling
	@$(firstword $(wildcard $(PY)) python3) tools/size.py

# --no-config and the missing index keep this machine's own settings out of the files.
COMPILE = env -u PIP_FIND_LINKS .venv/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make locks" $(UPGRADE)

locks: .venv/.learn ## write the pins again after a change in pyproject.toml (UPGRADE=--upgrade: the newest versions)
	$(COMPILE) --group setup --extra course pyproject.toml -o locks/learn.txt
	$(COMPILE) --group pyproject.toml:develop -c locks/learn.txt -o locks/develop.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --group pyproject.toml:site -c locks/learn.txt -c locks/develop.txt -o locks/site.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --extra java pyproject.toml -c locks/learn.txt -o locks/java.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --extra live pyproject.toml -c locks/learn.txt -o locks/live.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --extra re2 pyproject.toml -c locks/learn.txt -o locks/re2.txt \
		$$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' locks/learn.txt)
	$(COMPILE) --group engine -c locks/learn.txt -o locks/maturin.txt
	$(COMPILE) --group release -c locks/learn.txt -o locks/release.txt
	$(PY) tools/engine.py pin $(UPGRADE)

clean: ## delete caches and leftovers, but not .venv
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	rm -rf engine/target engine/Cargo.lock
	find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# The stamp names its folder. A .venv that was copied or moved, or whose Python is missing, is repaired.
ifneq ($(shell $(PY) -c 'print(open(".venv/.learn").read())' 2>/dev/null),$(CURDIR))
STALE := FORCE
endif
ifneq ($(PYTHON),)
STALE := FORCE
endif
problem = $(shell PYTHON="$(PYTHON)" WHEELHOUSE="$(WHEELHOUSE)" sh tools/setup.sh problem)

.venv/.learn: locks/learn.txt pyproject.toml tools/setup.sh $(STALE)
	@$(if $(problem),$(error $(problem)))
	@sh tools/setup.sh learn

# The native engine is built again when one of these changes; .venv may be made again without it.
.venv/.engine: $(wildcard engine/*.toml engine/src/*.rs engine/src/*/*.rs) locks/engine.txt locks/maturin.txt | .venv/.learn
	@sh tools/setup.sh engine

.venv/.develop: .venv/.learn locks/develop.txt locks/live.txt
	@sh tools/setup.sh develop

.venv/.site: .venv/.learn locks/site.txt
	@sh tools/setup.sh site
