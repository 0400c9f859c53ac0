"""Parameters in tags; types come from the tool's schema or from an attribute."""

from .._dialect import Dialect

QWEN3_CODER = Dialect(
    name="qwen3_coder",
    models="Qwen3-Coder, Qwen3.5 to 3.8, Nanbeige",
    aliases=("qwen3_xml", "nanbeige", "qwen_xml", "qwen_coder", "qwen3.5", "ornith", "qwen_3_coder", "qwen_3_5"),
    reasoning_aliases=("nanbeige",),
    section=("\n\n<tool_call>\n{calls}\n</tool_call>", "?{calls}"),
    section_per_call=True,
    call=("<function={name}>\n{params}</function>",),
    param=("<parameter={key}>\n{value}\n</parameter>\n",),
    stop=("<|im_end|>", "<|endoftext|>"),
    python_values=True,
)

DEEPSEEK_V3_2 = Dialect(
    name="deepseek_v3_2",
    models="DeepSeek-V3.2",
    aliases=("deepseek_v32", "deepseekv32", "deepseek32"),
    section=(
        "\n\n<｜DSML｜function_calls>\n{calls}</｜DSML｜function_calls>",
        "\n\n<｜DSML｜tool_calls>\n{calls}</｜DSML｜tool_calls>",
        "?{calls}",
    ),
    call=(
        '<｜DSML｜invoke name="{name}">\n{params}</｜DSML｜invoke>\n',
        '<｜DSML｜invoke name="{name}">\n{args}\n</｜DSML｜invoke>\n',
        '<｜DSML｜invoke name="{name}"/>\n',
    ),
    param=('<｜DSML｜parameter name="{key}" string="{string}">{value}</｜DSML｜parameter>\n',),
    sep=("",),
    reasoning=("<think>{text}</think>",),
    stop=("<｜end▁of▁sentence｜>",),
)
