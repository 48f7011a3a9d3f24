"""Files that say nonsense end in one clear line, before anything is reserved for what they claim."""

import json
import struct
import sys
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.loader import open_checkpoint
from tests.engine import tiny

STRING, ARRAY, UINT32 = 8, 9, 4


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(*entries: tuple[str, int, bytes], tensors: bytes = b"", tensor_count: int = 0) -> bytes:
    """A GGUF file's beginning: keys with their type and value, then the tensor table."""
    keys = b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in entries)
    return b"GGUF" + struct.pack("<IQQ", 3, tensor_count, len(entries)) + keys + tensors


NESTED = struct.pack("<IQ", ARRAY, 1) * (2 * sys.getrecursionlimit()) + struct.pack("<IQ", UINT32, 0)
BROKEN = {
    "no alignment": header(("general.alignment", UINT32, struct.pack("<I", 0))),
    "alignment by words": header(("general.alignment", ARRAY, struct.pack("<IQ", STRING, 0))),
    "lists in lists": header(("x", ARRAY, NESTED)),
    "a list longer than the file": header(("x", ARRAY, struct.pack("<IQ", UINT32, 2**63))),
    "a string longer than the file": header(("x", STRING, struct.pack("<Q", 2**64 - 1))),
    "more tensors than bytes": header(tensor_count=2**64 - 1),
    "a tensor of 2^32 dimensions": header(tensors=text("w") + struct.pack("<I", 2**32 - 1), tensor_count=1),
    "a tensor of an unknown type": header(tensors=text("w") + struct.pack("<IQIQ", 1, 1, 999, 0), tensor_count=1),
    "4 thousand million layers": header(
        ("general.architecture", STRING, text("gemma3")),
        ("gemma3.block_count", UINT32, struct.pack("<I", 2**32 - 1)),
        ("gemma3.attention.head_count", UINT32, struct.pack("<I", 1)),
        ("gemma3.attention.sliding_window", UINT32, struct.pack("<I", 1)),
        ("gemma3.embedding_length", UINT32, struct.pack("<I", 16)),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_gguf_file_that_claims_the_impossible(tmp_path: Path, what: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(BROKEN[what])
    with pytest.raises(ModelError):
        open_checkpoint(path)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("config.json", {"architectures": {"a": 1}}),
        ("config.json", {"architectures": 5}),
        ("config.json", {"num_hidden_layers": 10**9}),
        ("config.json", {"num_hidden_layers": 2.0}),
        ("config.json", {"hidden_size": 48.0}),
        ("config.json", {"vocab_size": 2**40}),
        ("config.json", {"max_position_embeddings": 2**31}),
        ("config.json", {"rms_norm_eps": "small"}),
        ("config.json", {"rms_norm_eps": float("nan")}),
        ("config.json", {"rope_theta": 0}),
        ("config.json", {"rope_scaling": {"rope_type": "linear", "factor": 0}}),
        ("tokenizer.json", {"added_tokens": [{}]}),
        ("tokenizer.json", {"added_tokens": 7}),
    ],
)
def test_a_folder_with_values_of_another_kind(tmp_path: Path, name: str, changes: dict[str, object]) -> None:
    folder = tiny.write_folder(tmp_path)
    known = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(known | changes))
    with pytest.raises(ModelError) as caught:
        open_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_a_shard_list_of_another_kind(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": ["a"]}))
    with pytest.raises(ModelError, match="malformed"):
        open_checkpoint(folder)


def test_a_token_beyond_the_embedding_is_refused_however_few_there_are(tmp_path: Path) -> None:
    """Such an id would read past the embedding when somebody spells the token."""
    folder = tiny.write_folder(tmp_path)
    raw = json.loads((folder / "tokenizer.json").read_text())
    raw["model"]["vocab"]["Ġt"] = 900_000
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    with pytest.raises(ModelError, match="900001 tokens, its embedding 265 rows"):
        open_checkpoint(folder)
