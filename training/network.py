"""The verifier's network in torch, for training; `semantic/alignment.py` computes the same without torch.

P pairs, S and T tokens, L layers, H the encoder's width, D projected width, F flags, W width of a comparison.
"""

import torch
from torch import nn
from torch.nn import functional

from semantic.marks import FLAGS
from training.states import Side

_FAR = -1e4
_PROJECTED, _COMPARED, _HEADS, _DROPOUT = 64, 128, 2, 0.2
"""D, W, alignments that are averaged, and the share of a comparison left out while training."""


class Aligner(nn.Module):
    """Log-odds that two texts mean the same.

    Args:
        layers: L.
        width: H.
    """

    def __init__(self, layers: int = 3, width: int = 384) -> None:
        super().__init__()
        projected, compared, heads, dropout = _PROJECTED, _COMPARED, _HEADS, _DROPOUT
        self.norm = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.proj = nn.ModuleList([nn.Linear(width, projected) for _ in range(layers)])
        start = torch.tensor([[3.0] * (layers - 1) + [6.0, 4.0]])
        self.align = nn.Parameter(start.repeat(heads, 1) + torch.randn(heads, layers + 1) * 0.5)
        seen = 4 * layers * projected + 2 * FLAGS + layers + 3
        self.compare = nn.ModuleList([nn.Linear(seen, compared), nn.Linear(compared, compared)])
        self.importance = nn.Linear(compared, 1)
        self.out = nn.ModuleList([nn.Linear(4 * compared + 3, compared), nn.Linear(compared, 1)])
        self.drop = nn.Dropout(dropout)
        self._width = width

    def forward(self, one: Side, other: Side) -> torch.Tensor:
        """[P] for P pairs."""
        left, right = self._normed(one[0]), self._normed(other[0])
        same = (one[2][:, :, None] == other[2][:, None, :]).float()
        layers = zip(left, right, strict=True)
        alike = [functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).mT for a, b in layers]
        alike_all = torch.stack([*alike, same], dim=-1)
        texts = self._projected(left), self._projected(right)
        reading = self._read(texts[0], texts[1], (one, other), alike_all, same)
        back = self._read(texts[1], texts[0], (other, one), alike_all.transpose(1, 2), same.mT)
        cosine = (one[4] * other[4]).sum(-1, keepdim=True)
        lengths = one[1].sum(-1, keepdim=True), other[1].sum(-1, keepdim=True)
        apart, shorter = (lengths[0] - lengths[1]).abs() / 10, torch.minimum(*lengths) / 30
        whole = torch.cat([reading + back, (reading - back).abs(), cosine, apart, shorter], dim=-1)
        hidden = self.drop(torch.relu(self.out[0](self.drop(whole))))
        scores: torch.Tensor = self.out[1](hidden).squeeze(-1)
        return scores

    def _normed(self, states: torch.Tensor) -> list[torch.Tensor]:
        starts = range(0, states.shape[-1], self._width)
        parts = [states[..., start : start + self._width] for start in starts]
        return [norm(part) for norm, part in zip(self.norm, parts, strict=True)]

    def _projected(self, normed: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([proj(part) for proj, part in zip(self.proj, normed, strict=True)], dim=-1)

    def _read(
        self,
        text: torch.Tensor,
        there: torch.Tensor,
        sides: tuple[Side, Side],
        alike: torch.Tensor,
        same: torch.Tensor,
    ) -> torch.Tensor:
        (_, mask, _, flags, _), (_, their_mask, _, their_flags, _) = sides
        drawn = torch.einsum("pstc,hc->phst", alike, self.align)
        drawn = drawn.masked_fill(their_mask[:, None, None, :] == 0, _FAR)
        shares = torch.softmax(drawn, dim=-1).mean(1)
        aligned = shares @ there
        nearest = alike.masked_fill(their_mask[:, None, :, None] == 0, -1.0).amax(2)
        certainty = shares.amax(-1, keepdim=True)
        equal = (shares * same).sum(-1, keepdim=True)
        seen = [text, flags, aligned, shares @ their_flags, (text - aligned).abs(), text * aligned]
        compared = torch.cat([*seen, nearest, certainty, equal], dim=-1)
        compared = self.drop(torch.relu(self.compare[0](compared)))
        compared = torch.relu(self.compare[1](compared))
        importance = self.importance(compared).masked_fill(mask.unsqueeze(-1) == 0, _FAR)
        pooled = (compared * torch.softmax(importance, dim=1)).sum(1)
        strongest = compared.masked_fill(mask.unsqueeze(-1) == 0, _FAR).amax(1)
        return torch.cat([pooled, strongest], dim=-1)
