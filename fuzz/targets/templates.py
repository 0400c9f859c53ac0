"""Target: chat templates from anywhere.

They give a prompt or the template's own error, and the worker process survives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fuzz.choices import TOOLS, Choices
from unspool.templates import ChatTemplate, ChatTemplateError

_MESSAGES: Final = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": None, "reasoning": "So.", "tool_calls": [{"id": "a", "function": {}}]},
    {"role": "tool", "content": "1", "tool_call_id": "a"},
)
_PARTS: Final = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>{% endfor %}",
    "{% if tools %}{% for tool in tools %}{{ tool | tojson(indent=2) }}{% endfor %}{% endif %}",
    "{% set n = namespace(found=false, text='') %}{% set n.text = n.text ~ messages[-1]['content'] %}",
    "{% macro kind(x) %}{% if x is mapping %}{{ kind(x | first) }}{% else %}{{ x }}{% endif %}{% endmacro %}",
    "{{ kind(tools[0]) }}{{ raise_exception('no') }}{{ strftime_now('%Y') }}",
    "{% generation %}{{ 'a' * 9 + '%5s' | format(1) }}{% endgeneration %}{{ loop.index0 }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a ** b %}{% endfor %}{% endfor %}",
    "{{ x | default([1, 2]) | map('string') | join(', ') }}{{ messages | selectattr('role') | list }}",
    "{% filter upper %}{{ messages[0].content.split('\\n')[0] }}{% endfilter %}{{ ''.__class__ }}",
)


def run(data: bytes) -> None:
    choices = Choices(data)
    probing = choices.choose((False, True))
    source = choices.utf8_text()
    try:
        template = ChatTemplate(source, max_length=10_000, max_seconds=0.05)
        _ = template.capabilities if probing else template.render(_MESSAGES, TOOLS)
    except ChatTemplateError as error:
        # A template must not be able to crash the worker or to cause these errors.
        assert "ended during the rendering" not in error.reason
        assert not error.reason.startswith(("OSError", "ImportError", "ModuleNotFoundError"))


def seeds() -> Iterator[bytes]:
    for number, part in enumerate(_PARTS):
        for other in _PARTS[number:]:
            yield bytes([number % 2]) + (part + other).encode()
