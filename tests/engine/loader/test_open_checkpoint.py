"""Models from disk: GGUF and folders give the same model, and broken ones one clear line."""

import json
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors

from engine.errors import ModelError
from engine.loader import open_checkpoint
from engine.loader.gguf_file import GgufFile
from engine.models import MODELS
from engine.packaged import SHA256, packaged_model, verify
from tests.engine import tiny
from tests.engine.gguf_files import finish, write_gguf


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_and_a_folder_are_the_same_model(tmp_path: Path, family: str, tied: bool) -> None:
    """transformers#31766, sglang#38363: rotary pairs and norm gains are as the other format has them."""
    layers = 7 if family == "gemma3" else 2
    shape, config = tiny.Shape(family=family, layers=layers, tied=tied), tiny.small_config()
    ids = [int(token) for token in torch.randint(3, 250, (50,), generator=torch.Generator().manual_seed(1))]
    found = []
    for path in (tiny.write_folder(tmp_path / "folder", shape), write_gguf(tmp_path / "model.gguf", shape)):
        checkpoint, runner = tiny.build_runner(path, config)
        found.append((tiny.engine_logits(runner, config, ids), checkpoint))
    (left, folder), (right, file) = found
    torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-5)
    assert folder.config == replace(file.config, norm_eps=folder.config.norm_eps)
    assert file.config.norm_eps == pytest.approx(folder.config.norm_eps)
    assert folder.eos_ids == file.eos_ids == {tiny.EOS_ID}
    text = "hello thé <|im_end|>"
    assert folder.tokenizer.encode(text) == file.tokenizer.encode(text)
    messages = [{"role": "user", "content": "hi"}]
    assert folder.template is not None
    assert file.template is not None
    assert folder.template.render(messages) == file.template.render(messages)


@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "Q4_0"), ("qwen2", "Q4_1"), ("qwen3", "Q5_0"), ("gemma3", "Q8_0")]
)
def test_quantised_weights_give_the_logits_of_what_they_stand_for(tmp_path: Path, family: str, kind: str) -> None:
    """sglang#38363: the embedding, which is the head too, is quantised with the rest."""
    number = gguf.GGMLQuantizationType[kind]
    shape = tiny.Shape(family=family, hidden=64, intermediate=96, layers=7 if family == "gemma3" else 2)
    folder, config = tiny.write_folder(tmp_path / "folder", shape), tiny.small_config()
    weights = load_file(folder / "model.safetensors")
    coarse = {
        name: torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), number), number))
        if weight.ndim > 1
        else weight
        for name, weight in weights.items()
    }
    save_file(coarse, folder / "model.safetensors", metadata={"format": "pt"})
    ids = list(range(3, 53))
    checkpoint, runner = tiny.build_runner(write_gguf(tmp_path / "model.gguf", shape, number), config)
    assert checkpoint.config.hidden == 64
    expected = tiny.engine_logits(tiny.build_runner(folder, config)[1], config, ids)
    torch.testing.assert_close(tiny.engine_logits(runner, config, ids), expected, rtol=1e-4, atol=1e-4)


def test_mixtures_of_experts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "moe.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_expert_count(8)
    finish(writer)
    with pytest.raises(ModelError, match="mixtures of experts are not supported"):
        open_checkpoint(path)


def test_one_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m-00001-of-00003.gguf", "llama")
    writer.add_uint16("split.count", 3)
    finish(writer)
    with pytest.raises(ModelError, match="is one of 3 parts; join them first"):
        open_checkpoint(tmp_path / "m-00001-of-00003.gguf")


@pytest.mark.parametrize("architecture", ["qwen3moe", "mamba", "gemma2"])
def test_another_architecture_is_refused_by_name(tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "other.gguf"
    finish(gguf.GGUFWriter(path, architecture))
    with pytest.raises(ModelError, match=f"'{architecture}' is not supported; known: .*gemma3"):
        open_checkpoint(path)


def test_the_token_that_ends_a_turn_is_found_by_name(tmp_path: Path) -> None:
    """Files made for chat often name the end of text only."""
    path = write_gguf(tmp_path / "model.gguf", tiny.Shape(), eos_id=0)
    assert open_checkpoint(path).eos_ids == {0, tiny.EOS_ID}


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
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "'Qwen3MoeForCausalLM' is not supported; known"),
        ({"use_sliding_window": True}, "sliding windows"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised by 'awq' are not supported"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial rotations"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"num_key_value_heads": 3}, "makes no sense"),
        ({"hidden_size": None}, "mistypes"),
        ({"num_attention_heads": 0}, "makes no sense"),
        ({"rope_parameters": "fast"}, "mistypes"),
        ({"rope_scaling": {"rope_type": "linear"}}, "mistypes 'factor'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "x"}}, "mistypes"),
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


def test_an_added_token_without_a_row_is_left_out(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    raw = json.loads((folder / "tokenizer.json").read_text())
    raw["added_tokens"].append(raw["added_tokens"][0] | {"id": 265, "content": "<image>"})
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    tokenizer = open_checkpoint(folder).tokenizer
    assert tokenizer.vocab_size == 265
    assert max(tokenizer.encode("a <image> <|im_end|>")) < 265


def test_a_folder_says_whether_texts_begin_with_a_begin_token(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    assert open_checkpoint(folder).tokenizer.bos_id is None
    edit(folder, "tokenizer_config.json", add_bos_token=True)
    assert open_checkpoint(folder).tokenizer.encode_whole("a")[0] == 1
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|im_start|>"}))
    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.post_processor = processors.TemplateProcessing("<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
    backend.save(str(folder / "tokenizer.json"))
    tokenizer = open_checkpoint(folder).tokenizer
    assert (tokenizer.bos_id, tokenizer.encode("a")[0] == 1) == (1, False)


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
