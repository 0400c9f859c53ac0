"""Raw text under the key ``code``, and the codec laws under every chunking."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool._core.arguments.raw_code import RawCode
from unspool._core.render.arguments import encode_code
from unspool._core.scan.markers import ValueMarkerSet
from unspool.errors import UsageError
from unspool.testing._linear_time_law import assert_linear

STOPS = ("<|eom_id|>", "<|eot_id|>", "<|end_of_text|>", "\ud801")
ENDS = ValueMarkerSet(STOPS)


def read(chunks: Iterable[str], ends: ValueMarkerSet = ENDS) -> tuple[str, int]:
    """Return the JSON text and the end of the raw text; drive the codec as the machine does."""
    codec = RawCode(ends)
    pieces = []
    end = 0
    pending = ""
    for chunk in (*chunks, None):
        buf = pending + (chunk or "")
        at = codec.step("<" + buf, 1, chunk is None) - 1
        pieces.append(codec.text)
        end += at
        pending = buf[at:]
        assert not codec.error
        assert not codec.diagnostics
        if codec.done:
            assert codec.step(pending, 0, True) == 0
            assert not codec.text
            break
        assert len(pending) < ends.longest or not pending
    else:
        assert not pending
        assert codec.finish(cut=False) == "complete"
        pieces.append(codec.text)
    assert codec.done
    assert codec.finish(cut=False) == "complete"
    assert not codec.text
    return "".join(pieces), end


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "",
        "\n  x = 1\n\n",
        'print("<|eom_id")\n# \\ \t é 🙂 \x00\x7f',
        "if a <| b: {}",
        "<|eom_id<|eot_",
    ],
)
@pytest.mark.parametrize("rest", ["", "<|eom_id|>", "<|eot_id|>\n\nMore.", "\ud801"])
def test_code_ends_at_a_marker(code: str, rest: str) -> None:
    text = code + rest
    for chunks in ([text], list(text), [text[i : i + 3] for i in range(0, len(text), 3)]):
        out, end = read(chunks)
        assert out == json.dumps({"code": code}, ensure_ascii=False)
        assert end == len(code)


def test_code_without_end_markers_ends_with_the_input() -> None:
    assert read(["<|eom_id|>"], ValueMarkerSet(())) == ('{"code": "<|eom_id|>"}', 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("x", '{"code": "x'),
        ('x\n"', '{"code": "x\\n\\"'),
        ("x<|e", '{"code": "x'),
        ("x<|a", '{"code": "x<|a'),
        ("<", ""),
        ("x<|eom_id|", '{"code": "x'),
        ("x<|eom_id|>", '{"code": "x"}'),
    ],
)
def test_output_is_emitted_as_early_as_possible(text: str, expected: str) -> None:
    codec = RawCode(ENDS)
    codec.step(text, 0, False)
    assert codec.text == expected


def test_empty_code_is_an_empty_string() -> None:
    codec = RawCode(ENDS)
    assert codec.finish(cut=False) == "complete"
    assert codec.text == '{"code": ""}'


shreds = st.lists(
    st.sampled_from((*STOPS, "<", "<|", "<|e", "eom_id|>", "x", "\n", '"')) | st.text(max_size=3)
)


@given(shreds.map("".join), st.data())
def test_chunking_does_not_matter(text: str, data: st.DataObject) -> None:
    whole = out, end = read([text])
    first = min((at for stop in STOPS if (at := text.find(stop)) >= 0), default=len(text))
    assert end == first
    assert json.loads(out) == {"code": text[:first]}
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    assert read([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == whole
    assert read(list(text)) == whole
    codec = RawCode(ENDS)
    codec.step(text[: data.draw(st.integers(0, len(text)))], 0, False)
    assert out.startswith(codec.text)


@given(st.text())
def test_encoding_round_trips(code: str) -> None:
    assert encode_code(json.dumps({"code": code})) == code
    assert read([encode_code(json.dumps({"code": code}))], ValueMarkerSet(())) == (
        json.dumps({"code": code}, ensure_ascii=False),
        len(code),
    )


@pytest.mark.parametrize(
    "arguments", ["", "{}", "[]", '{"code": 1}', '{"code": "x", "n": 1}', '{"text": "x"}', '{"code": "x"']
)
def test_encoding_needs_code(arguments: str) -> None:
    with pytest.raises(UsageError, match="raw code"):
        encode_code(arguments)


@pytest.mark.parametrize("piece", ['print("x")  # 1\n', "<", "<|", "<|eom_id|", "\\", "\n"])
def test_work_is_linear(piece: str) -> None:
    text = (piece * 40_000)[:40_000]
    assert_linear(lambda length: read([text[i : i + 4] for i in range(0, length, 4)]), 10_000)
