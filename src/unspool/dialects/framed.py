"""Messages whose header says what the body is."""

from .._dialect import Dialect, Frame, Route

HARMONY = Dialect(
    name="harmony",
    models="gpt-oss",
    aliases=("openai", "gpt_oss"),
    reasoning_aliases=("openai_gptoss", "gpt_oss"),
    frame=Frame(
        open=("<|start|>assistant", "<|start|>", "<|channel|>", "^ to=", "<|message|>"),
        sep="<|message|>",
        ends=("<|end|>", "<|return|>", "<|call|>"),
        fields=(" to={to}", "<|channel|>{channel}", "<|constrain|>{format}"),
        routes=(
            Route("to=functions.{name}", "{args}", "<|channel|>commentary to=functions.{name} <|constrain|>json"),
            Route("to=python", "reasoning"),
            Route("to=browser.{name}", "reasoning"),
            Route("to=container.{name}", "reasoning"),
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
