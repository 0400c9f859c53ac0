"""Dialects of gpt-oss, and of other families that write messages with headers."""

from dataclasses import replace

from .._declaration import Dialect, Family, Frame, Names, Prompt, Route
from .._family_request_facts import ALWAYS, FRAMED, RequestFacts
from ._shared import NATIVE

HARMONY_OPENERS = ("<|start|>assistant", "<|start|>", "<|channel|>", "^ to=", "<|message|>")
HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>")
HARMONY_FIELDS = (" to={to}", "<|channel|>{channel}", "<|constrain|>{format}")
HARMONY_EFFORTS = (("low", "low"), ("medium", "medium"), ("high", "high"))
FRAME_START = "<|start|>assistant"

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
                "to=functions.{name}", "{args}", "<|channel|>commentary to=functions.{name} <|constrain|>json"
            ),
            # Calls of the model's built-in tools are part of its reasoning, and not calls for the client.
            *(
                Route(f"to={tool}{function}", "reasoning")
                for tool in ("python", "browser", "container")
                for function in ("", ".{name}")
            ),
            Route("to=assistant channel=commentary", "drop"),
            Route("to=assistant channel=analysis", "reasoning"),
            Route("to=assistant", "content"),
            Route("to={name}", "{args}"),
            Route("channel=analysis", "reasoning", "<|channel|>analysis"),
            Route("", "content", "<|channel|>final"),
        ),
        call_end="<|call|>",
    ),
    reasoning=(),
    prompt=Prompt(start=FRAME_START),
    stop=("<|endoftext|>",),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|return|>", "<|call|>", "<|endoftext|>"),
        prompts=(FRAME_START,),
        thinking=replace(FRAMED, switches=("reasoning_effort",), efforts=HARMONY_EFFORTS),
    ),
)

HARMONY_STRIPPED = Dialect(
    name="harmony_stripped",
    family=Family("gpt-oss behind a detokenizer that removed the control tokens"),
    section=("!{calls}",),  # the role in front of a call ends reasoning
    call=("assistantcommentary to=functions.{name} json{args}",),
    reasoning=("^analysis{text}assistantfinal",),
    drop=("assistantfinal", "^final"),
    request=RequestFacts(
        calls_special=False,
        forced=("none",),
        eos=(),
        prompts=(FRAME_START,),
        thinking=replace(ALWAYS, switches=("reasoning_effort",), efforts=HARMONY_EFFORTS, seed=""),
    ),
)

BEAM = Dialect(
    name="beam",
    family=Family("Beam 1.0", model_names=("Beam 1.0",), reasoning_aliases=("beam",)),
    frame=Frame(
        open=HARMONY_OPENERS,
        sep="<|message|>",
        ends=HARMONY_ENDS,
        fields=HARMONY_FIELDS,
        routes=(
            Route("to={name}", "{params}", " to={name}<|channel|>analysis <|constrain|>xml"),
            Route("channel=analysis", "reasoning", "<|channel|>analysis"),
            Route("", "content", "<|channel|>final"),
        ),
    ),
    param=('<rfl:parameter name="{key}">\n{value}\n</rfl:parameter>\n',),
    reasoning=(),
    prompt=Prompt(start=FRAME_START),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|return|>", "<|call|>"),
        prompts=(FRAME_START,),
        thinking=FRAMED,
    ),
)

MUSE_GLIMMER = Dialect(
    name="muse_glimmer",
    family=Family(
        "Muse Glimmer",
        model_names=("Muse Glimmer",),
        aliases=("muse", "glimmer"),
        reasoning_aliases=("muse_glimmer", "muse"),
    ),
    frame=Frame(
        open=("<|start|>assistant", " to=", "<|message|>", "^to="),
        sep="<|message|>",
        ends=("<|eom|>", "<|eot|>"),
        fields=("to={to}",),
        routes=(
            Route("to=self", "reasoning", " to=self"),
            Route("to=user", "content", " to=user"),
            Route("to={name}", "{calls}", " to={name}"),
            Route("", "content"),
        ),
    ),
    section=("<atem:function_calls>\n{calls}</atem:function_calls>",),
    call=('<atem:invoke name="{name}">\n{params}</atem:invoke>\n',),
    sep=("",),
    param=('<atem:parameter name="{key}">{value}</atem:parameter>\n',),
    names=Names(forms=("{name}.{name}", "{name}")),
    reasoning=(),
    prompt=Prompt(start=FRAME_START),
    request=RequestFacts(
        calls_special=True,
        answers_special=True,
        forced=NATIVE,
        eos=("<|eot|>",),
        prompts=(FRAME_START,),
        thinking=replace(FRAMED, switches=("reasoning_effort",), effort_name="reasoning_strength"),
    ),
)
