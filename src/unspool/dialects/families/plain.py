"""Dialects that do not belong to a family: JSON from any model, and text that is passed on unchanged."""

from .._declaration import Dialect, Envelope, Family, Writing
from .._family_request_facts import NO_REASONING, UNSWITCHED, RequestFacts
from .._placed_templates import Section
from ._shared import JSON, JSON_FIRST, LLAMA_STOPS

# Sample output:
#   <think>
#   The user wants the weather.
#   </think>
#
#   [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}},\
#    {"name": "now", "arguments": {}}]
GENERIC_JSON = Dialect(
    name="generic_json",
    family=Family("guided output, unknown models", aliases=("json", "default")),
    section=(
        Section("[{calls}]", only_at_start=True),
        Section("{calls}", only_at_start=True),
        "```json\n[{calls}]\n```",
        "```json\n{calls}\n```",
    ),
    call=("{envelope}",),
    writing=Writing(between_calls=", "),
    separators=(";",),
    envelope=Envelope(name_keys=("name", "function")),
    stop=LLAMA_STOPS,
    request=RequestFacts(calls_special=False, forced=JSON_FIRST, eos=(), thinking=UNSWITCHED),
)

# Sample output:
#   Let me check.
PASSTHROUGH = Dialect(
    name="passthrough",
    family=Family("any: everything is content, markup included", aliases=("identity", "plain")),
    reasoning=(),
    request=RequestFacts(calls_special=None, forced=JSON, thinking=NO_REASONING),
)
