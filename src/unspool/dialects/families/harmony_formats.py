"""Dialects of gpt-oss, and of other families that write messages with headers."""

from dataclasses import replace

from .._declaration import Dialect, Family, Frame, Habits, Names, Prompt, Route, Writing
from .._family_request_facts import ALWAYS, FRAMED, RequestFacts, ThinkingHabits
from .._placed_templates import Opener, Wrapper
from ._shared import NATIVE

HARMONY_OPENERS = (
    "<|start|>assistant",
    "<|start|>",
    "<|channel|>",
    Opener(" to=", only_at_start=True),
    "<|message|>",
)
HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>")
HARMONY_FIELDS = (" to={to}", "<|channel|>{channel}", "<|constrain|>{format}")
HARMONY_EFFORTS = (("low", "low"), ("medium", "medium"), ("high", "high"))
FRAME_START = "<|start|>assistant"

# Sample output:
#   <|channel|>analysis<|message|>The user wants the weather.<|end|>\
#   <|start|>assistant<|channel|>final<|message|>Let me check.<|end|>\
#   <|start|>assistant<|channel|>commentary to=functions.get_weather \
#   <|constrain|>json<|message|>{"city": "Paris", "days": 3}<|call|>\
#   <|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json\
#   <|message|>{}<|call|>
HARMONY = Dialect(
    name="harmony",
    family=Family(
        "gpt-oss",
        model_names=("gpt-oss", "gptoss"),
        aliases=("openai", "gpt_oss"),
        reasoning_aliases=("openai_gptoss", "gpt_oss"),
    ),
    frame=Frame(
        open=HARMONY_OPENERS,
        sep="<|message|>",
        ends=HARMONY_ENDS,
        fields=HARMONY_FIELDS,
        routes=(
            Route(
                {"to": "functions.{name}"},
                "{args}",
                "<|channel|>commentary to=functions.{name} <|constrain|>json",
            ),
            # Calls of the model's built-in tools are part of its reasoning, and not calls for the client.
            *(
                Route({"to": f"{tool}{function}"}, "reasoning")
                for tool in ("python", "browser", "container")
                for function in ("", ".{name}")
            ),
            Route({"to": "assistant", "channel": "commentary"}, "drop"),
            Route({"to": "assistant", "channel": "analysis"}, "reasoning"),
            Route({"to": "assistant"}, "content"),
            Route({"to": "{name}"}, "{args}"),
            Route({"channel": "analysis"}, "reasoning", "<|channel|>analysis"),
            Route({}, "content", "<|channel|>final"),
        ),
    ),
    habits=Habits(call_end="<|call|>"),
    reasoning=(),
    prompt=Prompt(ends=(FRAME_START,), opens_message=True),
    stop=("<|endoftext|>",),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|return|>", "<|call|>", "<|endoftext|>"),
        thinking=replace(FRAMED, switches=("reasoning_effort",), efforts=HARMONY_EFFORTS),
    ),
)

# Sample output:
#   analysisThe user wants the weather.assistantfinalLet me\
#    check.assistantcommentary to=functions.get_weather json{"city": "Paris",\
#    "days": 3}
#   assistantcommentary to=functions.now json{}
HARMONY_STRIPPED = Dialect(
    name="harmony_stripped",
    family=Family("gpt-oss behind a detokenizer that removed the control tokens"),
    call=("assistantcommentary to=functions.{name} json{args}",),
    reasoning=(Wrapper("analysis{text}assistantfinal", only_at_start=True),),
    writing=Writing(between_calls="\n"),
    drop=("assistantfinal",),
    prompt=Prompt(ends=(FRAME_START,)),
    request=RequestFacts(
        calls_special=False,
        forced=("none",),
        thinking=replace(ALWAYS, switches=("reasoning_effort",), efforts=HARMONY_EFFORTS, seed=""),
    ),
)

# Sample output:
#   <|channel|>analysis<|message|>The user wants the weather.<|end|>\
#   <|start|>assistant<|channel|>final<|message|>Let me check.<|end|>\
#   <|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|>\
#   <rfl:parameter name="city">
#   Paris
#   </rfl:parameter>
#   <rfl:parameter name="days">
#   3
#   </rfl:parameter>
#   <|end|><|start|>assistant to=now<|channel|>analysis <|constrain|>xml<|message|>\
#   <|end|>
BEAM = Dialect(
    name="beam",
    family=Family("Beam 1.0", model_names=("Beam 1.0",), reasoning_aliases=("beam",)),
    frame=Frame(
        open=HARMONY_OPENERS,
        sep="<|message|>",
        ends=HARMONY_ENDS,
        fields=HARMONY_FIELDS,
        routes=(
            Route({"to": "{name}"}, "{params}", " to={name}<|channel|>analysis <|constrain|>xml"),
            Route({"channel": "analysis"}, "reasoning", "<|channel|>analysis"),
            Route({}, "content", "<|channel|>final"),
        ),
    ),
    param=('<rfl:parameter name="{key}">\n{value}\n</rfl:parameter>\n',),
    reasoning=(),
    prompt=Prompt(ends=(FRAME_START,), opens_message=True),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|return|>", "<|call|>"),
        thinking=FRAMED,
    ),
)

# Sample output:
#    to=self<|message|>The user wants the weather.<|eom|><|start|>assistant to=user\
#   <|message|>Let me check.<|eom|><|start|>assistant to=get_weather<|message|>\
#   <atem:function_calls>
#   <atem:invoke name="get_weather">
#   <atem:parameter name="city">Paris</atem:parameter>
#   <atem:parameter name="days">3</atem:parameter>
#   </atem:invoke>
#   </atem:function_calls><|eom|><|start|>assistant to=now<|message|>\
#   <atem:function_calls>
#   <atem:invoke name="now">
#   </atem:invoke>
#   </atem:function_calls><|eom|>
MUSE_GLIMMER = Dialect(
    name="muse_glimmer",
    family=Family(
        "Muse Glimmer",
        model_names=("Muse Glimmer",),
        aliases=("muse", "glimmer"),
        reasoning_aliases=("muse_glimmer", "muse"),
    ),
    frame=Frame(
        open=("<|start|>assistant", " to=", "<|message|>", Opener("to=", only_at_start=True)),
        sep="<|message|>",
        ends=("<|eom|>", "<|eot|>"),
        fields=("to={to}",),
        routes=(
            Route({"to": "self"}, "reasoning", " to=self"),
            Route({"to": "user"}, "content", " to=user"),
            Route({"to": "{name}"}, "{calls}", " to={name}"),
            Route({}, "content"),
        ),
    ),
    section=("<atem:function_calls>\n{calls}</atem:function_calls>",),
    call=('<atem:invoke name="{name}">\n{params}</atem:invoke>\n',),
    param=('<atem:parameter name="{key}">{value}</atem:parameter>\n',),
    names=Names(forms=("{name}.{name}", "{name}")),
    reasoning=(),
    prompt=Prompt(ends=(FRAME_START,), opens_message=True),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|eot|>",),
        thinking=replace(
            FRAMED, switches=("reasoning_effort",), habits=ThinkingHabits(effort_name="reasoning_strength")
        ),
    ),
)
