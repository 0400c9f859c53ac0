"""Small ChatML template that renders calls."""

from __future__ import annotations

from typing import Final

CHATML: Final = r"""
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\n<tool_call>\n' + call.function | tojson + '\n</tool_call>' }}
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
