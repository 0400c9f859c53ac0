"""Chat templates: the prompt that an output follows.

``ChatTemplate`` renders a model's Jinja template the way Hugging Face
Transformers does: the same sandbox, the same filters, the same treatment of
the messages.  ``normalise_history`` makes messages as clients send them fit
for a template: what a template can read differs (arguments as objects or as
text, the key of the reasoning, one call or many, ...), and it does not say so.
So it is asked: ``TemplateCapabilities`` holds the answers, found by rendering probes once.

A template is a program that came with a download: it runs in a process of its
own, which takes no more time and memory than it is given, and is kept for the
next rendering.

Needs Jinja2: ``pip install 'unspool[template]'``.
"""

from ._capabilities import TemplateCapabilities
from ._chat_template import ChatTemplate, ChatTemplateError, ChatTemplateLimit
from ._history import MALFORMED_KEY, normalise_history
from ._render_pool import NoRenderer

__all__ = [
    "MALFORMED_KEY",
    "ChatTemplate",
    "ChatTemplateError",
    "ChatTemplateLimit",
    "NoRenderer",
    "TemplateCapabilities",
    "normalise_history",
]
