"""Three dialects for birds, which unspool finds by their names once this package is installed."""

from unspool import Dialect
from unspool.dialects import Family, Frame, Habits, Prompt, RequestFacts, Route, Section, Thinking, Writing

# JSON arguments between tags, and reasoning:
#   <preen>Hm.</preen>Hello!<squawk get_cracker>
#   {"n": 1}
#   </squawk>
PARROT = Dialect(
    name="parrot",
    family=Family("Norwegian Blue", aliases=("polly",)),
    call=("<squawk {name}>\n{args}\n</squawk>",),
    reasoning=("<preen>{text}</preen>",),
    request="hermes",
)

# Parameters on lines of their own, in a section whose marker the model may forget if the tool is declared.
#   Look!
#   @@calls
#   steal get_worm [
#     - depth: 3;
#     - where: under the {old} tree;
#   ]
#   @@end
MAGPIE = Dialect(
    name="magpie",
    family=Family("Pica pica", model_names=("Magpie",)),
    section=("@@calls\n{calls}\n@@end", Section("{calls}\n@@end", only_at_start=True, declared_only=True)),
    call=("steal {name} [\n{params}]",),
    writing=Writing(before_calls="\n", between_calls="\n"),
    param=("  - {key}: {value};\n",),
    reasoning=(),
    request="llama3_json",
)

# Messages with headers, whose field says whom they are for.
#   <|from|>owl to=self<|says|>Whom?<|end|><|from|>owl to=catch<|says|>{"prey": "mouse"}<|end|>
OWL = Dialect(
    name="owl",
    family=Family("Strix aluco", aliases=("tawny_owl",)),
    reasoning=(),
    frame=Frame(
        open=("<|from|>owl",),
        sep="<|says|>",
        ends=("<|end|>",),
        fields=(" to={to}",),
        routes=(
            Route({"to": "self"}, "reasoning", " to=self"),
            Route({"to": "all"}, "content", " to=all"),
            Route({"to": "{name}"}, "{args}", " to={name}"),
        ),
    ),
    prompt=Prompt(ends=("<|from|>owl",), opens_message=True),
    habits=Habits(call_end="<|end|>"),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=("native",),
        eos=("<|end|>",),
        thinking=Thinking(
            special=True,
            default="model",
            switches=(),
            seed="",
            after_tool="same",
            when_off=None,
            strip=None,
        ),
    ),
)
