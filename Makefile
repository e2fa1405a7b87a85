# `make help` lists the targets. Everything lives in .venv; a second run installs nothing.

PYTHON ?= python3
# Index for torch. The default has PyTorch's CPU builds (0.2 GB); an empty value uses the package
# index's build (3 GB with CUDA); for AMD GPUs give the ROCm index that matches the driver.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH := $(shell grep '^torch==' constraints.txt)

# Without it, each of the hundreds of processes that tests start would compile our files again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
VISION := .venv-vision
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# -qq still prints errors; on some systems a single -q repeats a warning for each package.
INSTALL := $(PIP) install -qq --no-compile -c constraints.txt
# pip would compile 20,000 files on one core. Some are not Python, such as templates, and fail. The
# packages' own tests and most models of transformers are never imported: a quarter of the time.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/(tests|transformers/models|databricks)/' $(VENV)/lib || true
CODE := redkiln service worker native docker tools tests bench examples
PROSE := README.md CONTRIBUTING.md CHANGELOG.md docs examples bench/README.md bench/results

.DEFAULT_GOAL := help
.PHONY: help setup dev demo up page page-check page-types page-test openapi postgres postgres-part screenshots test unit unit-worker unit-rest integration attacks fuzz soak acceptance vision tensorflow coverage lint format messages docs reference hashes bench emulated clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.run  ## create .venv with what the stack needs

dev: $(VENV)/.dev  ## also install what the tests and lints need

demo: $(VENV)/.run  ## start everything, train a small CNN, check its ONNX, stop everything
	@$(BIN)/python -m native demo

up: $(VENV)/.run  ## run the stack in the foreground; UP=--help lists its options, as in UP="--port 8400"
	@$(BIN)/python -m native up $(UP)

page: $(VENV)/.venv  ## build the web page into page/dist, which the service serves
	@$(BIN)/python -m native page

page-check: $(VENV)/.venv  ## check the types of the page's sources, if npm is there
	@$(BIN)/python -m native page-check

page-types: $(VENV)/.dev  ## rewrite the page's types after a change of the API
	@$(BIN)/python -m tools.page_types

openapi: $(VENV)/.dev  ## rewrite docs/openapi.json after a change of the API
	@$(BIN)/python -m tools.openapi

postgres: $(VENV)/.dev  ## tests of the service on PostgreSQL (needs Debian's package postgresql)
	OMP_NUM_THREADS=1 REDKILN_TEST_POSTGRES=1 $(BIN)/python -m pytest -q $(UNIT) tests/service tests/attacks

# The files whose statements differ most between the two databases; the others run on SQLite only.
postgres-part: $(VENV)/.dev  ## the part of these tests that CI runs
	OMP_NUM_THREADS=1 REDKILN_TEST_POSTGRES=1 $(BIN)/python -m pytest -q -n 2 \
		tests/service/attempts/test_claim.py tests/service/attempts/test_fencing.py \
		tests/service/attempts/test_finish.py tests/service/attempts/test_report.py \
		tests/service/jobs/lists tests/service/keys/test_keys.py tests/service/notices \
		tests/service/uploads tests/service/test_housekeeping.py tests/service/http/test_text.py \
		tests/attacks/test_workers.py tests/attacks/test_generated_sequences.py \
		tests/attacks/test_large_numbers.py

test:  ## lints, types and all tests that need no container
	$(MAKE) --no-print-directory -j3 lint unit-worker unit-rest
	$(MAKE) --no-print-directory integration

# One thread a process: torch's would only wait for each other. `worksteal` keeps the tests of a file
# together, which share fixtures, until a process has nothing left to do.
# One process more than cores, because many tests wait for other processes. A third of them do not
# run the worker's tests: collecting all tests takes 10 s of CPU time in each process, and 17 s where
# nothing is compiled yet; collecting the worker's takes 7 s, and the others' 6 s.
# Importing the files that are left out, all of whose tests are deselected, takes 2 s of CPU time in
# each process.
PROCESSES = $(shell $(PYTHON) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))')
UNIT_OPTIONS = $(RERUN) --dist worksteal -m "not integration and not vision"
OTHERS = $(addprefix --ignore=tests/,integration faults acceptance page)
UNIT = $(UNIT_OPTIONS) -n $(PROCESSES) $(OTHERS)

# A test gets a second try. The summary prints RERUN and the failure of the first one: mend it.
# A test that hung gets none, because its time limit would no longer apply.
RERUN = --reruns 1 --rerun-except 'from pytest-timeout' --rerun-show-tracebacks

emulated:  ## doctor, self-test and three steps of training on AMD's emulator (not run by this project yet)
	@tools/emulate.sh

unit: $(VENV)/.dev  ## the fast tests
	@$(MAKE) --no-print-directory --output-sync=target -j2 unit-worker unit-rest

unit-worker: $(VENV)/.dev  ## the worker's fast tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(UNIT_OPTIONS) \
		-n $$(( ($(PROCESSES) * 2 + 2) / 3 )) tests/worker

unit-rest: $(VENV)/.dev  ## all other fast tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(UNIT_OPTIONS) \
		-n $$(( ($(PROCESSES) + 2) / 3 )) $(OTHERS) --ignore=tests/worker

coverage: $(VENV)/.dev  ## line and branch coverage of the fast tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(UNIT) --cov --cov-report=term:skip-covered

# Requests to each operation for each role; PostgreSQL gets half as many.
FUZZ_REQUESTS ?= 20
FUZZ_NETWORKS ?= 100
GENERATED := tests/attacks/test_generated_requests.py tests/attacks/test_generated_sequences.py

fuzz: $(VENV)/.dev  ## 2,000 damaged captures of real machines (needs ../shared), 100 random networks, 12,000 requests
	REDKILN_FUZZ_REQUESTS=$(FUZZ_REQUESTS) $(BIN)/python -m pytest -q --timeout 3600 $(GENERATED)
	REDKILN_FUZZ_REQUESTS=$$(( ($(FUZZ_REQUESTS) + 1) / 2 )) REDKILN_TEST_POSTGRES=1 $(BIN)/python -m pytest -q --timeout 3600 $(GENERATED)
	REDKILN_FUZZ_CASES=2000 $(BIN)/python -m pytest -q tests/worker/hardware/facts/test_fuzz_captures.py
	REDKILN_FUZZ_NETWORKS=$(FUZZ_NETWORKS) $(BIN)/python -m pytest -q --timeout 3600 tests/worker/export/test_fuzz_networks.py

attacks: $(VENV)/.dev  ## attacks on the service and on workers that must fail
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/attacks

soak: $(VENV)/.dev  ## jobs, uploads and faults for SOAK_MINUTES (30), and whether anything grows
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.soak

# Collecting only the files with such tests takes 5 s of CPU time in each process, all take 15 s.
integration: $(VENV)/.dev  ## real Redis, SQLite and processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 3 --dist loadgroup -m integration --durations=15 $(RERUN) \
		$$(grep -rlF mark.integration --include='test_*.py' tests)

page-test: $(VENV)/.dev  ## the web page in a browser (needs chromium)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m page tests/page --durations=5 $(RERUN)

screenshots: $(VENV)/.dev  ## take the pictures of docs/page.md again (needs chromium)
	@$(BIN)/python -m tools.page_pictures

acceptance: $(VENV)/.dev  ## the real containers, over HTTP (needs a Docker engine; see docs/containers.md)
	$(BIN)/python -m pytest -v -m acceptance tests/acceptance --durations=15 $(RERUN)

vision:  ## models of timm, in .venv-vision with torchvision and its torch (5.5 GB); skipped if it passed
	@$(PYTHON) tools/vision_lock.py is-passed || \
		{ $(MAKE) --no-print-directory $(VISION)/.dev && \
		$(VISION)/bin/python -m pytest -q -m vision tests/worker/trainer/models && \
		$(PYTHON) tools/vision_lock.py write; }

tensorflow: $(VENV)/.dev  ## the example script that trains with TensorFlow, which its job installs (1.5 GB)
	REDKILN_TEST_TENSORFLOW=1 $(BIN)/python -m pytest -q -n 0 -m integration \
		tests/integration/scripts/test_script_examples.py -k tensorflow

lint: $(VENV)/.dev  ## check code with ruff, mypy and svelte-check, Markdown with mdformat
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mdformat --check $(PROSE)
	$(BIN)/mypy
	@$(BIN)/python -m native page-check

format: $(VENV)/.dev  ## format code with ruff, Markdown with mdformat
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/mdformat $(PROSE)

messages: $(VENV)/.venv  ## print every message that a user can read, with its place in the source
	@$(BIN)/python -m tools.messages

docs: $(VENV)/.docs  ## build docs/ into a web site below build/docs; fails on a broken link
	@$(BIN)/python -m tools.site

reference: $(VENV)/.run  ## rewrite docs/reference/job-spec.md after a change of a spec's field
	@$(BIN)/python -m tools.site reference

hashes: $(VENV)/.venv  ## rewrite docker/hashes.txt after a change of constraints.txt
	@$(INSTALL) uv
	@grep -hEv '^(#|torch(vision)?==)' constraints.txt constraints-vision.txt | \
		$(BIN)/uv pip compile - --quiet --no-deps --generate-hashes --no-header --no-annotate \
			--output-file docker/hashes.txt

bench: $(VENV)/.dev  ## measure, side by side, as ratios; writes bench/out/latest.json
	$(BIN)/python -m bench

clean:  ## remove environments, build output and the demo's files
	rm -rf $(VENV) $(VISION) demo-out demo-data bench/out build .cache .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Redkiln needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "venv is missing: on Debian or Ubuntu, apt install python3-venv"; exit 1; }
	@touch $@

# An index that does not answer is checked once, here, rather than by pip for every package. An index
# that the user named is not replaced, because the package index has another build of torch.
$(VENV)/.torch: $(VENV)/.venv
	@index='$(TORCH_INDEX)'; \
	if [ -n "$$index" ] && ! $(BIN)/python -m native.reach "$$index"; then \
		if [ '$(origin TORCH_INDEX)' != file ]; then \
			echo "$$index does not answer. To use the package index instead: make TORCH_INDEX= $(MAKECMDGOALS)"; exit 1; \
		fi; \
		echo "$$index does not answer; installing torch from the package index"; index=; \
	fi; \
	echo "Installing $(TORCH)$${index:+ from $$index}"; \
	$(INSTALL) --retries 2 $(TORCH) $${index:+--extra-index-url "$$index"}
	@touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "Installing the service, the worker and the native stack"
	@$(INSTALL) -e '.[service,worker,native]'
	@$(COMPILE)
	@touch $@

# All at once: a second call of pip would resolve and build what `.run` has installed again.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "Installing the service, the worker, the native stack and test tools"
	@$(INSTALL) -e '.[service,worker,native,mlflow,vulkan,docs,dev]'
	@$(COMPILE)
	@touch $(VENV)/.run $(VENV)/.docs $@

$(VENV)/.docs: $(VENV)/.run
	@echo "Installing what builds the documentation"
	@$(INSTALL) -e '.[docs]'
	@touch $@

# torchvision needs one exact torch, which may differ from ours; the rest follows constraints.txt.

$(VISION)/.dev: pyproject.toml constraints.txt constraints-vision.txt
	@echo "Creating $(VISION)"
	@$(PYTHON) -m venv $(VISION)
	@grep -v '^torch==' constraints.txt | cat - constraints-vision.txt > $(VISION)/constraints.txt
	@$(VISION)/bin/python -m pip --disable-pip-version-check install -qq -c $(VISION)/constraints.txt \
		-e '.[worker,vision]' pytest pytest-timeout
	@touch $@
