"""Messages whose header says what the body is."""

from .._core.words.dialect import Dialect, Frame, Route
from ._shared import LLAMA_STOPS

HARMONY_OPENERS = ("<|start|>assistant", "<|start|>", "<|channel|>", "^ to=", "<|message|>")
HARMONY_ENDS = ("<|end|>", "<|return|>", "<|call|>")
HARMONY_FIELDS = (" to={to}", "<|channel|>{channel}", "<|constrain|>{format}")

HARMONY = Dialect(
    name="harmony",
    models="gpt-oss",
    aliases=("openai", "gpt_oss"),
    reasoning_aliases=("openai_gptoss", "gpt_oss"),
    frame=Frame(
        open=HARMONY_OPENERS,
        sep="<|message|>",
        ends=HARMONY_ENDS,
        fields=HARMONY_FIELDS,
        routes=(
            Route(
                "to=functions.{name}", "{args}", "<|channel|>commentary to=functions.{name} <|constrain|>json"
            ),
            # Built-in tools are the model's own business, not calls for the client.
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
    start="<|start|>assistant",
    stop=("<|endoftext|>",),
)

BEAM = Dialect(
    name="beam",
    models="Beam 1.0",
    reasoning_aliases=("beam",),
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
    start="<|start|>assistant",
)

MUSE_GLIMMER = Dialect(
    name="muse_glimmer",
    models="Muse Glimmer",
    aliases=("muse", "glimmer"),
    reasoning_aliases=("muse_glimmer", "muse"),
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
    name_forms=("{name}.{name}", "{name}"),
    reasoning=(),
    start="<|start|>assistant",
)

FUNCTIONARY_V32 = Dialect(
    name="functionary_v32",
    models="Functionary v3.2",
    frame=Frame(
        open=(">>>",),
        sep="\n",
        ends=(),
        fields=(">>>{to}",),
        routes=(
            Route("to=all", "content", "all"),
            Route("to={name}", "{args}", "{name}"),
        ),
    ),
    reasoning=(),
    start=">>>",
    stop=LLAMA_STOPS,
)
