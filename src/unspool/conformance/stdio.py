r"""A parser in a program of its own: JSON lines over standard input and output.

So Rust, Go and C++ parsers can join, and parsers whose packages cannot live in
one environment.  A program speaks this protocol, one JSON value to a line,
UTF-8, and flushes after each:

1. It says what it is, once, when it is ready::

    {"hello": {"parser": "vllm", "version": "0.32.0",
               "dialects": {"hermes": {"tool_parser": "hermes", "reasoning_parser": "qwen3"}}}}

   ``dialects`` has an entry for each of our dialects that it claims to read, by
   our name; what the entry holds is for people: which of its own parsers it
   uses.  With ``"choices": true`` beside them it takes requests with ``choices``.

2. Then, for every request line, it answers one line, in any order::

    {"id": 7, "dialect": "hermes", "mode": "stream",
     "chunks": ["Let me look. <tool", "_call>..."],
     "tools": [...], "tool_choice": "auto",
     "start": "content", "prompt": null, "finish_reason": "stop"}

   ``dialect``        our name for it
   ``mode``           ``stream``: feed the chunks one by one; ``batch``: there is
                      one chunk, the whole output; use the parser for whole
                      outputs if there is another
   ``tools``          as in a request to OpenAI's API; never null
   ``tool_choice``    ``auto``, ``none``, ``required`` or
                      ``{"type": "function", "function": {"name": ...}}``
   ``start``          where the prompt left the model: ``content`` (outside of
                      everything), ``reasoning`` or ``response`` (inside the
                      wrapper that its family puts around answers)
   ``prompt``         the end of the prompt, such as ``<think>\n``; null: what
                      the family's template ends with, and it opens nothing
   ``finish_reason``  why generation stopped: ``stop`` or ``length``

   A request with several choices has, instead of ``chunks``,
   ``"choices": [[chunk, ...], [chunk, ...]]``: feed the first chunk of each, then
   the second of each, and so on, each choice to a parser of its own.

3. The answer is one of::

    {"id": 7, "deltas": [null, {"content": "Let me look."}, ...], "finish_reason": "tool_calls"}
    {"id": 7, "choices": [{"deltas": [...], "finish_reason": ...}, ...]}
    {"id": 7, "error": "KeyError: 'name'"}
    {"id": 7, "unsupported": "no parser for calls that begin inside reasoning"}

   ``deltas`` has an entry for every chunk, and one more for the end.  An entry
   is null or a delta; or a list of deltas, where the order inside one matters::

    {"content": "text", "reasoning": "text",
     "tool_calls": [{"index": 0, "id": "call_1", "name": "get_weather", "arguments": "{"}]}

   Every key may be missing.  A call's first delta has its name; ids are checked
   if they are given.  In ``batch`` mode there is one entry: the whole message.
   ``finish_reason`` is null where the parser does not decide it.

   ``error`` is for a parser that raised; ``unsupported`` for what it does not
   claim to do: such cases do not count against it.

A program that takes longer than the time limit, dies or writes something else is
stopped and started again, and the case is an error.
"""
