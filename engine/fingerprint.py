"""What a block's numbers depend on besides its tokens, as one digest: the root of every prefix digest."""

from hashlib import blake2b

from engine.loader import Checkpoint

_FORMAT = 1
"""Raise it when the layout of a block or the meaning of a digest changes."""

_DIGEST_BYTES = 32
_LENGTH_BYTES = 8


def cache_root(checkpoint: Checkpoint, model_digest: str, numerics: tuple[str, ...]) -> bytes:
    """Digest everything that identifies a block's numbers; another model, however alike, has another root.

    Args:
        checkpoint: for its shape, its tokenizer and its template.
        model_digest: identifies the weights.
        numerics: how they are computed with: weight format, KV type, attention backend, and the like.
    """
    tokenizer = checkpoint.tokenizer
    fields = {
        "format": str(_FORMAT).encode(),
        "model": model_digest.encode(),
        "shape": repr(checkpoint.config).encode(),
        "tokenizer": b"\0".join(tokenizer.label(token_id) for token_id in range(tokenizer.vocab_size)),
        "template": b"" if checkpoint.template is None else checkpoint.template.source.encode(),
        **{f"numerics {index}": value.encode() for index, value in enumerate(numerics)},
    }
    digest = blake2b(digest_size=_DIGEST_BYTES, person=b"lamina-kv-root")
    for name, value in fields.items():
        for part in (name.encode(), value):
            digest.update(len(part).to_bytes(_LENGTH_BYTES, "little"))
            digest.update(part)
    return digest.digest()
