"""The grammar that llama.cpp derives from a chat template for a required call: a template in, JSON out.

It needs a process of its own: a server does not end when its object is deleted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    weights, tools = sys.argv[1], json.loads(sys.argv[2])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(weights))
    params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 8192, 1, 1
    params.use_jinja, params.warmup, params.port = True, False, 0
    params.chat_template = sys.stdin.read()
    server = xllamacpp.Server(params)
    answer = server.handle_chat_completions(
        {
            "messages": [{"role": "user", "content": "What is the weather like in Paris?"}],
            "tools": tools,
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "chat_template_kwargs": {"enable_thinking": False},
            "max_tokens": 1,
            "verbose": True,
        }
    )
    settings = answer["__verbose"]["generation_settings"] if "__verbose" in answer else {"error": answer}
    json.dump(settings, out)
    out.close()
    os._exit(0)


main()
