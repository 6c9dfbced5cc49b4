# Everything a person or CI does with a checkout. The first call of a target makes .venv and
# installs what the target needs; later calls find the stamp files and start at once.
# Nothing but that first call uses the network.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
ARGS   ?=

RUNTIME := $(VENV)/.installed-runtime
TEST    := $(VENV)/.installed-test
CHECK   := $(VENV)/.installed-check
DOCS    := $(VENV)/.installed-docs
LITE_TOOLS := $(VENV)/.installed-lite
NODE    := $(VENV)/.installed-node
PINS    := pyproject.toml constraints.txt scripts/install.sh

# What `make test` leaves to `make test-full`.
MARKS := not ui and not lite and not slow
UI    := ui and not slow
LITE  := lite and not slow
NOTEBOOKS := $(patsubst %,--ignore=notebooks/%.ipynb,measured_and_simulated size_a_cluster astrasim3/figures_10_11_put_and_get astrasim3/figures_12_13_parallelism)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test test-random test-full check docs lite bench changelog pins clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

lab: $(RUNTIME)  ## JupyterLab on the tour (ARGS=--no-browser on a machine without a screen)
	@$(PY) -m astranb lab $(ARGS)

# CI tries fixed examples (tests/conftest.py). Here are others, of the property tests that a seed names as well; the day is
# the seed, so that each is tried every few days, and whatever fails does so again.
SEED   ?= $(shell date -u +%Y%m%d)
RANDOM  = $(PYTEST) -n 2 -m "hypothesis and $(MARKS)" --hypothesis-profile=random --hypothesis-seed=$(SEED)
RANDOM_EXAMPLES = echo "random examples: the same ones again by 'make test-random SEED=$(SEED)'"; \
	$(RANDOM) $$($(PY) -m scripts.random_tests $(SEED))

# First what tests need and bring once: kernels, browsers (Firefox for one test, which is skipped without it), and what
# pages run. Each part of a test or check runs even when one before it failed: one call shows all there is to fix.
test: $(TEST)  ## every test: unit, property, doctest, notebooks, real browser
	@set -e; $(PY) -m astranb.core.ahead & \
	sh scripts/browser.sh --install >/dev/null; \
	sh scripts/browser.sh --install firefox >/dev/null || true; \
	$(PY) -m astranb runtime >/dev/null; \
	wait
	@failed=; \
	$(PYTEST) -n 2 -m "$(MARKS)" $(ARGS) || failed="$$failed unit"; \
	$(RANDOM_EXAMPLES) || failed="$$failed random(SEED=$(SEED))"; \
	TQDM_DISABLE=1 $(PYTEST) -p tests.notebook_kernels --nbval-lax --nbval-current-env \
	    --nbval-sanitize-with tests/notebooks.cfg --nbval-cell-timeout=300 -n 2 --dist loadscope $(NOTEBOOKS) notebooks tutorials || failed="$$failed notebooks"; \
	$(PYTEST) -n 2 -m "$(UI)" tests/ui || failed="$$failed browser"; \
	$(PYTEST) -m "$(LITE)" tests/lite || failed="$$failed lite"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed"; exit 1; fi

test-random: $(TEST)  ## other random examples: those of the day, or of SEED=20261128
	@$(RANDOM_EXAMPLES)

test-full: MARKS := not ui and not lite
test-full: UI := ui
test-full: LITE := lite
test-full: NOTEBOOKS :=
test-full: test  ## the same with those that take long

# -W: a broken link between our own pages, a name that is not there or a page that would fetch
# something fails it, and --keep-going shows all of them. Addresses of others are not asked for.
SPHINX := $(PY) -m sphinx -q -W --keep-going -b html -c docs -d build/doctrees . build/docs

# Node comes with the group `check`; TypeScript and ESLint only check: nothing of the widgets is built.
WITH_NODE := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

CHANGELOG := $(PY) -m towncrier build

check: $(CHECK) $(DOCS) $(NODE)  ## lint, format, imports, types (Python and JavaScript), changes, documentation
	@failed=; \
	$(PY) -m ruff check . || failed="$$failed lint"; \
	$(PY) -m ruff format --check . || failed="$$failed format"; \
	$(VENV)/bin/lint-imports --no-logo --no-cache >/dev/null || { $(VENV)/bin/lint-imports --no-logo --no-cache; failed="$$failed imports"; }; \
	$(PY) -m scripts.prose || failed="$$failed prose"; \
	$(PY) -m mypy -n 2 || failed="$$failed types"; \
	$(CHANGELOG) --draft --version 0 >/dev/null || failed="$$failed changes"; \
	$(WITH_NODE) npm run --silent check || failed="$$failed javascript"; \
	$(SPHINX) || failed="$$failed docs"; \
	if [ -n "$$failed" ]; then echo "make check: failed:$$failed"; exit 1; fi

docs: $(DOCS)  ## the documentation site, in build/docs
	@$(SPHINX)
	@echo "build/docs/index.html"

lite: $(LITE_TOOLS)  ## the lessons in JupyterLite, for any browser, in build/lite
	@$(PY) -m scripts.lite
	@echo "look at it: python3 -m http.server -d build/lite"

bench: $(TEST)  ## the benchmark table
	@$(PY) -m benchmarks $(ARGS)

changelog: $(CHECK)  ## what a release would say of changes/; VERSION=0.2.0 writes it into CHANGELOG.md
	@$(CHANGELOG) $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

# It asks the index that pip is configured for; no address is written into the files.
pins: $(RUNTIME)  ## write constraints.txt and scripts/lite/requirements.txt anew from what asks for packages
	@$(PY) -m uv pip compile -q pyproject.toml --group dev --extra all --universal --python-version 3.11 \
	    --custom-compile-command 'make pins' $(ARGS) -o constraints.txt
	@PYTHON="$(PY)" sh scripts/lite/pins.sh

clean:  ## remove .venv and everything that was built
	@rm -rf $(VENV) node_modules build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): $(PINS)
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV)
	@touch $@

$(TEST): $(RUNTIME)
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) --group test
	@touch $@

$(CHECK): $(RUNTIME)
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) --group test --group check
	@touch $@

$(DOCS): $(RUNTIME)
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) --group docs
	@touch $@

$(LITE_TOOLS): $(RUNTIME)
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) --group lite
	@touch $@

$(NODE): $(CHECK) package.json package-lock.json
	@$(WITH_NODE) npm ci --silent --no-audit --no-fund
	@touch $@
