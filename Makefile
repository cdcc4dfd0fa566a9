# Everything a newcomer needs: `make serve` and `make test`.  Each target sets up what it needs and can be run again at
# any time; what is downloaded is kept in one folder, CACHE, for all checkouts.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/foretold
PORT ?=
PYTEST_ARGS ?=
BENCH_PEERS ?=
# What tests run beside our own programs: shells that complete our commands, a maker of certificates.
PROGRAMS := bash zsh fish openssl strace
# Whole processes, faults, a real model: two at a time.  Of all else three, as much of it waits.
LARGE := tests/e2e tests/faults tests/real_model

VENV := .venv
RUN := PYTHONPATH=src $(VENV)/bin/python
export NPM_CONFIG_CACHE := $(CACHE)/npm
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export FORETOLD_CACHE := $(CACHE)

.DEFAULT_GOAL := help
.PHONY: help serve test slow faults soak check vectors edge bench wheel format lock clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/.run  ## run a node with the bundled model; PORT=8080 for another port
	@PYTHONPATH=src exec $(VENV)/bin/python -m foretold serve $(if $(PORT),--port $(PORT))

test: $(VENV)/.dev tests/e2e/javascript/node_modules tests/wrangler/node_modules edge  ## all tests: vectors in both languages, real processes, a real model
	@tools/apt $(PROGRAMS)
	node --test worker/test/*.test.js
ifneq ($(PYTEST_ARGS),)
	$(RUN) -m pytest $(PYTEST_ARGS)
else
	$(RUN) -m pytest -n 3 --dist loadfile $(addprefix --ignore=,$(LARGE))
	$(RUN) -m pytest -n 2 --dist loadfile $(LARGE)
endif

slow: $(VENV)/.dev  ## what takes too long for `make test`: many more random values, minutes
	$(RUN) -m pytest -m slow $(PYTEST_ARGS)

faults: $(VENV)/.dev  ## every fault: upstreams, callers, clocks, disks, kills, power cuts, random rounds; half an hour
	@tools/apt $(PROGRAMS)
	$(RUN) -m pytest tests/faults -m "slow or not slow" $(PYTEST_ARGS)

soak: $(VENV)/.dev  ## a node under mixed traffic for SOAK_MINUTES=30, and whether anything of it grows
	@$(RUN) -m tests.soak

vectors: $(VENV)/.dev  ## the contract's vectors in CPython and in JavaScript
	$(RUN) -m pytest tests/contract
	node --test worker/test/*.test.js

edge: worker/node_modules  ## the Worker in real workerd, in front of strict emulators
	node --test worker/test/edge/*.test.js

check: $(VENV)/.dev  ## lint, types, layers, generated files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=src $(VENV)/bin/lint-imports
	$(RUN) contract/generate.py --check
	$(RUN) docs/generate.py --check
	$(RUN) tools/check_tree.py

bench: $(VENV)/.dev worker/node_modules  ## CPU microseconds of a hit and a miss, beside nginx and Varnish; BENCH_PEERS=FOLDER adds others
	@tools/apt wrk nginx-light varnish varnish-modules $(if $(BENCH_PEERS),redis-server nghttp2-client)
	$(RUN) bench/run.py
	$(RUN) bench/crowd.py
	$(RUN) bench/edge.py
	$(RUN) bench/pull.py
	$(RUN) bench/tokens.py
	$(RUN) bench/predicted.py
	$(if $(BENCH_PEERS),$(RUN) bench/peers.py $(BENCH_PEERS) $(CACHE)/bench-peers)

wheel: $(VENV)/.dev  ## builds the wheel and runs the end-to-end tests against it, away from the source tree
	@tools/apt $(PROGRAMS)
	tools/test-wheel $(VENV) $(CACHE)

format: $(VENV)/.dev  ## puts the code into its one form
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

lock: $(VENV)/.dev  ## pins all dependencies anew, with hashes
	tools/lock $(PYTHON)

clean:  ## removes what was set up in this checkout; CACHE stays
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf tests/e2e/javascript/node_modules tests/wrangler/node_modules worker/node_modules

$(VENV)/bin/python:
	@tools/venv $(PYTHON) $(VENV)

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	@tools/packages $(VENV) $(CACHE) requirements.txt 50
	@touch $@

$(VENV)/.dev: requirements-dev.txt | $(VENV)/bin/python
	@tools/packages $(VENV) $(CACHE) requirements-dev.txt 165
	@touch $@ $(VENV)/.run

tests/e2e/javascript/node_modules worker/node_modules tests/wrangler/node_modules: %/node_modules: %/package-lock.json
	@command -v npm >/dev/null || { echo "make: npm is missing: install Node.js 20 or newer" >&2; exit 1; }
	@echo "Setting up: what the tests in $* need (once) …"
	@cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
