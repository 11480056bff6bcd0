# Every target sets up what it needs first. `make` alone says what there is.
PYTHON_BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests setup-bench up test soak demo bench peers fuzz check coverage format lock

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## create .venv with the pinned dependencies, install RabbitMQ if it is missing
	@scripts/setup

setup-tests:
	@scripts/setup tests

setup-bench:
	@scripts/setup bench

up: setup ## run broker, door, station and two consumers in the foreground; Ctrl-C stops them
	@$(PYTHON_BIN)/python -m scripts.up

# One file stays in one process, which has a broker of its own; tests/conftest.py says how many, and which come first.
PARALLEL ?= --numprocesses=auto --maxprocesses=8 --dist=loadfile --no-loadscope-reorder

test: setup-tests ## run every test against a real broker, and alone once more up to three that failed; ARGS="-k name" narrows it down, PARALLEL= is one by one
	@$(PYTHON_BIN)/python -m scripts.run_tests $(PARALLEL) $(ARGS)

KILLS ?= 50
soak: setup ## two hundred repetitions of one killer among good tickets while workers and nodes are killed, then KILLS=50 of the station; ARGS="--seed 7"
	$(PYTHON_BIN)/python -m tests.faults.soak $(ARGS)
	$(PYTHON_BIN)/python -m tests.faults.station_kills --kills $(KILLS)

demo: setup ## the story of ticket 9417, start to end; ARGS=--stay leaves its desk up until Ctrl-C
	@$(PYTHON_BIN)/python -m tests.acceptance.demo $(ARGS)

bench: setup-bench peers ## the benchmarks in their quick form: JSON and pictures in benchmarks/results/, the table in its README
	@$(PYTHON_BIN)/python -m benchmarks all --quick --save
	@$(PYTHON_BIN)/python -m benchmarks.report

peers: setup ## fetch the programs that the benchmarks measure beside the product, into .venv/peers (35 MB)
	@$(PYTHON_BIN)/python -m venv .venv/peers
	@.venv/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
		-r requirements-peers.lock
	@if command -v npm >/dev/null; then \
		mkdir -p .venv/peers/bullmq && cp benchmarks/peers/bullmq/package*.json .venv/peers/bullmq/ && \
		npm ci --prefix .venv/peers/bullmq --ignore-scripts --no-audit --no-fund --silent --fetch-retries=1 --fetch-timeout=60000 || \
		echo "peers: BullMQ could not be fetched, so it is not measured; the others are there" >&2; \
	fi

FUZZ_SECONDS ?= 60
fuzz: setup ## search for bytes that break the door's readers, FUZZ_SECONDS for each; fetches atheris (35 MB) at first
	$(PYTHON_BIN)/python -m venv .venv/fuzz
	.venv/fuzz/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
		-r requirements.lock -r requirements-fuzz.lock
	for target in body json text multipart ticket; do \
		.venv/fuzz/bin/python -m tests.fuzz $$target --seconds $(FUZZ_SECONDS) || exit 1; \
	done

check: setup ## format, lint, types, dead code, architecture
	$(PYTHON_BIN)/ruff format --check .
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/mypy
	$(PYTHON_BIN)/vulture
	$(PYTHON_BIN)/python -m pytest -q tests/architecture

# Rules that decide about tickets, and nothing but decide: every branch of them is tried by unit tests alone.
PURE = breaker claim evidence fleet forbearance isolation judgement patience policy read_ahead records recycle storm suspicion verdict

coverage: setup-tests ## every branch of the pure rules is tried
	$(PYTHON_BIN)/coverage erase
	$(PYTHON_BIN)/coverage run -m pytest -q tests/unit/consumer \
		--deselect tests/unit/consumer/test_fence.py --deselect tests/unit/consumer/test_spend_on_record.py \
		--deselect tests/unit/consumer/test_storm_memory.py
	$(PYTHON_BIN)/coverage report --show-missing --fail-under=100 \
		--include=$(shell echo $(PURE:%=consumer/%.py) | tr ' ' ',')

format: setup ## format the code and apply the safe fixes
	$(PYTHON_BIN)/ruff format .
	$(PYTHON_BIN)/ruff check --fix .

# pip-tools has a virtual environment of its own: what writes the lock is not in the lock.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" .venv/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: setup ## write the lock files anew from pyproject.toml; keeps what is pinned unless UPGRADE=--upgrade
	$(PYTHON_BIN)/python -m venv .venv/lock
	.venv/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	$(COMPILE) $(UPGRADE) pyproject.toml --extra brotli --extra fast --extra otel --extra zstd --output-file requirements.lock
	$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --extra brotli --extra fast --extra otel --extra zstd --output-file requirements-dev.lock
	$(COMPILE) $(UPGRADE) requirements-fuzz.in --output-file requirements-fuzz.lock
	$(COMPILE) $(UPGRADE) requirements-peers.in --output-file requirements-peers.lock
	$(COMPILE) $(UPGRADE) pyproject.toml --only-build-deps --build-deps-for wheel --output-file requirements-build.lock
