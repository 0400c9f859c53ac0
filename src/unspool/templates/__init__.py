"""Chat templates, rendered as in Hugging Face Transformers.

``ChatTemplate`` renders a model's Jinja template with the sandbox and the filters of Transformers.
``normalise_history`` converts a client's messages to the form that a template can read.  Templates differ in
three properties: the form of arguments (an object or JSON text), the key that contains reasoning, and the
number of calls that a message may have.  A template does not declare these properties.  This package
determines them by rendering short test conversations (probes), and stores the results in
``TemplateCapabilities``.

A template is a program from an untrusted source.  It runs in a separate process with limits on time and
memory.  Later renderings reuse this process.

This package needs Jinja2: ``pip install 'unspool[template]'``.
"""

from ._capabilities import PROBED_TOOL, ChatMessage, TemplateCapabilities
from ._chat_template import ChatTemplate, ChatTemplateError, ChatTemplateLimit, as_chat
from ._jinja_environment import RenderMode
from ._normalise_history import MALFORMED_KEY, normalise_history
from ._render_pool import NoRenderer, isolated_renderer
from ._turn_openers_by_role import turn_openers
from .prefix_stability import Difference

__all__ = [
    "MALFORMED_KEY",
    "PROBED_TOOL",
    "ChatMessage",
    "ChatTemplate",
    "ChatTemplateError",
    "ChatTemplateLimit",
    "Difference",
    "NoRenderer",
    "RenderMode",
    "TemplateCapabilities",
    "as_chat",
    "isolated_renderer",
    "normalise_history",
    "turn_openers",
]
