"""Models from disk: GGUF and folders give the same model, and broken ones one clear line."""

import json
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from engine.errors import ModelError
from engine.loader import open_checkpoint
from engine.loader.gguf_file import GgufFile
from engine.models.rotary import paired_rows
from engine.packaged import SHA256, packaged_model, verify
from tests.engine import tiny

_GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_GGUF_NAMES[part.removesuffix('.weight')]}.weight"


def write_gguf(path: Path, shape: tiny.Shape) -> Path:
    """Write the tiny model as llama.cpp's converter would: rotary pairs of queries and keys side by side."""
    backend = tiny.byte_level_tokenizer()
    tokens = [backend.id_to_token(token_id) for token_id in range(backend.get_vocab_size())]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(tiny.SPECIALS) + [1] * (len(tokens) - len(tiny.SPECIALS)))
    writer.add_token_merges([" ".join(pair) for pair in tiny._MERGES])
    writer.add_eos_token_id(tiny.EOS_ID)
    writer.add_chat_template(tiny.TEMPLATE)
    for name, weight in tiny.random_weights(shape, len(tokens)).items():
        heads = {"q": shape.heads, "k": shape.kv_heads}.get(name.partition("self_attn.")[2][:1])
        tensor = weight[paired_rows(heads, shape.head_dim)] if heads else weight
        writer.add_tensor(gguf_name(name), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_and_a_folder_are_the_same_model(tmp_path: Path, tied: bool) -> None:
    """transformers#31766: queries and keys are put back in order."""
    shape, config = tiny.Shape(tied=tied), tiny.small_config()
    ids = [int(token) for token in torch.randint(3, 250, (50,), generator=torch.Generator().manual_seed(1))]
    found = []
    for path in (tiny.write_folder(tmp_path / "folder", shape), write_gguf(tmp_path / "model.gguf", shape)):
        checkpoint, runner = tiny.build_runner(path, config)
        found.append((tiny.engine_logits(runner, config, ids), checkpoint))
    (left, folder), (right, file) = found
    assert torch.equal(left, right)
    assert folder.config == replace(file.config, norm_eps=folder.config.norm_eps)
    assert file.config.norm_eps == pytest.approx(folder.config.norm_eps)
    assert folder.eos_ids == file.eos_ids == {tiny.EOS_ID}
    text = "hello thé <|im_end|>"
    assert folder.tokenizer.encode(text) == file.tokenizer.encode(text)
    messages = [{"role": "user", "content": "hi"}]
    assert folder.template is not None
    assert file.template is not None
    assert folder.template.render(messages) == file.template.render(messages)


def test_rotary_pairs_are_put_side_by_side() -> None:
    assert paired_rows(1, 6).tolist() == [0, 3, 1, 4, 2, 5]
    assert paired_rows(2, 4).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0])
@pytest.mark.parametrize("rows", [1, 7, 64, 96])
def test_quantised_tensors_are_read_row_by_row(tmp_path: Path, kind: gguf.GGMLQuantizationType, rows: int) -> None:
    values = np.random.default_rng(4).standard_normal((rows, 64)).astype(np.float32)
    path = tmp_path / "q.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    packed = gguf.quants.quantize(values, kind)
    writer.add_tensor("w", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    matrix = GgufFile(path).matrix("w")
    np.testing.assert_array_equal(matrix.dense(), gguf.quants.dequantize(packed, kind))
    np.testing.assert_array_equal(matrix.reordered([rows - 1, 0]).dense()[0], matrix.dense()[-1])


def test_metadata_equals_what_the_package_reads(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", tiny.Shape())
    file, reader = GgufFile(path), gguf.GGUFReader(path)
    assert len(file.metadata) > 10
    assert file.metadata == {key: reader.fields[key].contents() for key in file.metadata}
    assert {name: entry.shape for name, entry in file.tensors.items()} == {
        tensor.name: tuple(reversed(tensor.shape.tolist())) for tensor in reader.tensors
    }


@pytest.mark.parametrize("size", [0, 3, 20, 400, 3000])
def test_a_cut_file_is_one_clear_line(tmp_path: Path, size: int) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", tiny.Shape()).read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole[:size])
    with pytest.raises(ModelError, match=r"broken\.gguf"):
        open_checkpoint(broken)


def test_missing_tensor_data_is_noticed(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "whole.gguf", tiny.Shape()).read_bytes()
    (tmp_path / "short.gguf").write_bytes(whole[:-5000])
    with pytest.raises(ModelError, match="cut off"):
        tiny.build_runner(tmp_path / "short.gguf", tiny.small_config())


def edit(folder: Path, name: str, **changes: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": []}, "None"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"num_key_value_heads": 3}, "makes no sense"),
        ({"hidden_size": None}, "mistypes"),
        ({"vocab_size": 100}, "265 tokens, its embedding 100 rows"),
    ],
)
def test_a_folder_of_another_kind_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    folder = tiny.write_folder(tmp_path)
    edit(folder, "config.json", **changes)
    with pytest.raises(ModelError, match=message):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_absent_or_broken_file_is_named(tmp_path: Path, name: str) -> None:
    folder = tiny.write_folder(tmp_path)
    (folder / name).write_bytes(b"{ broken")
    with pytest.raises(ModelError, match=name):
        open_checkpoint(folder)
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        open_checkpoint(folder)


def test_templates_and_end_tokens_come_from_every_place_they_may_be(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 5]}))
    (folder / "chat_template.jinja").write_text("JINJA{{ messages[0]['content'] }}")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.eos_ids == {0, 2, 5}
    assert checkpoint.template is not None
    assert checkpoint.template.render([{"role": "user", "content": "x"}]) == "JINJAx"
    (folder / "chat_template.jinja").unlink()
    edit(folder, "tokenizer_config.json", chat_template=[{"name": "default", "template": "NAMED"}])
    named = open_checkpoint(folder).template
    assert named is not None
    assert named.render([{"role": "user", "content": "x"}]) == "NAMED"
    edit(folder, "tokenizer_config.json", chat_template=None)
    assert open_checkpoint(folder).template is None


def test_no_model_at_all() -> None:
    with pytest.raises(ModelError, match="no model at"):
        open_checkpoint(Path("/nowhere/at/all"))


def test_the_packaged_model_is_found_and_genuine(tmp_path: Path) -> None:
    verify(packaged_model())
    fake = tmp_path / "fake.gguf"
    fake.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=SHA256):
        verify(fake)
    with pytest.raises(ModelError, match="cannot read"):
        verify(tmp_path / "absent.gguf")
