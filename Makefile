# Everything a checkout needs, from a machine that has make and python3-venv.
# `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := python -m pip --quiet --quiet --no-input --disable-pip-version-check
APT := apt-get install -y make python3-venv
# They wait more than they work.
LIVE_JOBS ?= 4
# What takes long is named, since a run takes as long as that.
SLOWEST := --durations 15 --durations-min 10
# The folders that have such tests, unless some are named.
LIVE = $(BIN)/python -m pytest $(SLOWEST) $(if $(findstring tests/,$(ARGS)),,tests/live tests/contract tests/vm)
SECONDS_OF_RUN ?= 15
SYSTEM ?= trixie
CMD ?= uname -a
CHECKOV ?= 3.3.30
PROTO := src/qoslet/host/cri/pb/cri.proto src/qoslet/host/nri/pb/nri.proto
CODE := src bench docs tests

.DEFAULT_GOAL := help
.PHONY: help run test live can-write test-vm test-vm-full test-web test-image vm-run vm-shell zoo bench bench-fleet bench-peers fmt lint docs proto changelog lock clean

help: ## This list
	@printf 'qoslet: make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@printf '\nOn a fresh machine, first: %s\n' '$(APT)'

run: $(VENV)/run.stamp ## Run the pods of examples/ with real requests and limits for 15 seconds
	@$(BIN)/qoslet run examples/ --for $(SECONDS_OF_RUN); code=$$?; \
	if [ $$code -ne 3 ]; then exit $$code; fi; \
	echo 'This machine cannot do it, so here is the same on a simulated kernel (--simulate):' >&2; \
	$(BIN)/qoslet run examples/ --for $(SECONDS_OF_RUN) --simulate

test: $(VENV)/dev.stamp ## Style, types, imports, documents and every test that needs no rights
	@$(BIN)/python -m pytest -n auto --dist worksteal $(SLOWEST) $(ARGS)

live: $(VENV)/dev.stamp ## The tests that write to this machine's kernel, each in a group of its own (root)
	@$(LIVE) -m 'live and not alone' -n $(LIVE_JOBS) --dist worksteal $(ARGS); beside=$$?; \
	$(LIVE) -m 'live and alone' $(ARGS); alone=$$?; \
	case "$$beside $$alone$(if $(ARGS),, all)" in '0 0'*|'0 5'|'5 0') ;; *) exit 1 ;; esac

can-write: $(VENV)/run.stamp
	@$(BIN)/qoslet doctor >/dev/null

test-vm: $(VENV)/dev.stamp ## The live tests in real systems: Debian 12 (v1), 13 and sid (v2), under QEMU (root, once)
	@$(BIN)/python -m tests.vm test $(ARGS)

test-vm-full: $(VENV)/dev.stamp ## The same in every system of the matrix; writes docs/development/vm-table.md
	@$(BIN)/python -m tests.vm full $(ARGS)

# Handed over as it was typed: a $ in it is the shell's.
vm-run: export override CMD := $(value CMD)
vm-run: $(VENV)/dev.stamp ## One command in such a system: make vm-run SYSTEM=sid CMD='qoslet doctor'
	@$(BIN)/python -m tests.vm run $(SYSTEM) "$$CMD"

vm-shell: $(VENV)/dev.stamp ## A root shell in such a system: make vm-shell SYSTEM=bookworm
	@$(BIN)/python -m tests.vm shell $(SYSTEM)

zoo: $(VENV)/dev.stamp ## Loads under the guard on Linux 6.12 and newest; writes docs/development/zoo-table.md (root)
	@$(BIN)/python -m tests.vm zoo $(ARGS)

test-web: $(VENV)/web.stamp ## The web page in a real Chromium (apt-get install chromium): errors, axe, keyboard, figures
	@$(BIN)/python -m pytest -m web tests/web $(ARGS)

test-image: $(VENV)/dev.stamp ## The image of deploy/Dockerfile, built and run as the DaemonSet does (root; apt-get install buildah runc)
	@$(BIN)/python -m pytest -m image tests/deploy/test_image.py $(ARGS)

bench: $(VENV)/bench.stamp ## Measure every figure beside its floor, in the same run
	@$(VENV)/bench/bin/python -m bench.run $(ARGS)

bench-fleet: $(VENV)/bench.stamp ## How qoslet fleet grows to 1,500,000 pods (half an hour, 1 GB of disk)
	@$(VENV)/bench/bin/python -m bench.offline.growth $(ARGS)

bench-peers: $(VENV)/peers.stamp ## qoslet lint beside checkov, the one peer on PyPI (300 MB, installed for it)
	@$(VENV)/peers/bin/python -m bench.offline.peers $(ARGS)

fmt: $(VENV)/dev.stamp ## Format the code and mend what can be mended
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

lint: $(VENV)/dev.stamp ## Style, types and import contracts only
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(VENV)/dev.stamp ## Write the pages and pictures that come from the code
	@$(BIN)/python -m docs.generate.document_types
	@$(BIN)/ruff check -q --fix src/qoslet/render/documents/types && $(BIN)/ruff format -q src/qoslet/render/documents/types
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.pictures.render

proto: $(VENV)/dev.stamp ## Write the messages of CRI and NRI from their .proto
	@$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src $(PROTO)

changelog: $(VENV)/dev.stamp ## Print the changes since the last release
	@$(BIN)/towncrier build --draft --version unreleased

lock: ## Pin the dependencies again (needs uv)
	@command -v uv >/dev/null || { echo 'make lock needs uv on the PATH: pipx install uv' >&2; exit 1; }
	uv pip compile $(LOCKING) --group build --output-file requirements.lock pyproject.toml
	uv pip compile $(LOCKING) --extra cri --output-file requirements-cri.lock pyproject.toml
	uv pip compile $(LOCKING) --extra cluster --output-file requirements-cluster.lock pyproject.toml
	uv pip compile $(LOCKING) --group dev --extra cri --extra cluster --output-file requirements-dev.lock pyproject.toml
	uv pip compile $(LOCKING) --group web --extra cri --output-file requirements-web.lock pyproject.toml

clean: ## Remove what make made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

LOCKING := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --only-binary :all: \
	--no-header --no-emit-index-url --no-emit-find-links

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo 'qoslet needs Python: $(APT)' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "qoslet needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V);" \
	'name another one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	echo 'This Python cannot make virtual environments: $(APT)' >&2; exit 1; }
	@echo 'Making $(VENV) (once)'
	@$(PYTHON) -m venv --clear $(VENV)

# The build backend is pinned in the lock too, so installing qoslet itself asks no index.
$(VENV)/run.stamp: $(BIN)/python requirements.lock pyproject.toml
	@echo 'Installing qoslet and what it needs'
	@$(BIN)/$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	@$(BIN)/$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo 'Installing the tools of development'
	@$(BIN)/$(PIP) install --require-hashes --only-binary :all: -r requirements-dev.lock
	@touch $@

$(VENV)/web.stamp: $(VENV)/dev.stamp requirements-web.lock
	@echo 'Installing the client of the browser'
	@$(BIN)/$(PIP) install --require-hashes --only-binary :all: -r requirements-web.lock
	@touch $@

# Figures are taken of what a user installs, not of a checkout with its tools beside it.
$(VENV)/bench.stamp: $(VENV)/run.stamp $(shell find src -name '*.py' 2>/dev/null)
	@echo 'Installing qoslet as a user has it, to measure it'
	@$(PYTHON) -m venv --clear $(VENV)/bench
	@$(VENV)/bench/bin/$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	@$(VENV)/bench/bin/$(PIP) install --no-deps --no-build-isolation --no-index .
	@touch $@

$(VENV)/peers.stamp: $(VENV)/run.stamp
	@echo 'Installing qoslet beside checkov'
	@$(PYTHON) -m venv --clear $(VENV)/peers
	@$(VENV)/peers/bin/$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	@$(VENV)/peers/bin/$(PIP) install checkov==$(CHECKOV)
	@$(VENV)/peers/bin/$(PIP) install --no-deps --no-build-isolation --no-index .
	@touch $@
