"""Chat templates, rendered like Hugging Face Transformers renders them.

``ChatTemplate`` renders a model's Jinja template with the sandbox and the filters
of Transformers.  ``normalise_history`` converts the messages of a client to the
form that a template can read.  Templates differ in the form of arguments, the key
of reasoning, or the number of calls per message, and do not declare this.
``TemplateCapabilities`` holds what probes find out about a template.

A template is a program from an untrusted source.  It runs in a separate process
with limits on time and memory, which is kept for later renderings.

Needs Jinja2: ``pip install 'unspool[template]'``.
"""

from ._capabilities import TemplateCapabilities
from ._chat_template import ChatTemplate, ChatTemplateError, ChatTemplateLimit
from ._normalise_history import MALFORMED_KEY, normalise_history
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
