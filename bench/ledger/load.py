"""Clients of both protocols that keep what they saw."""

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from policies.ledger import PriceTable, split, worth

MODELS = {"mini": "gpt-5.4-mini", "sonnet": "claude-sonnet-5-5", "own": "home-made"}
"""Names that clients use, and what their providers call them."""

_AT_ONCE = 24
_OK, _UNKNOWN, _GONE = 200, 401, 499
_FRESH = itertools.count(1_000_000)

Json = dict[str, Any]
Seen = tuple[str, str, str]
"""Tenant, provider's name of the model, layer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        text: the question: a kind, which the upstream knows, and a number.
        leaves: whether the client goes away in the middle.
    """

    tenant: str
    model: str
    text: str
    stream: bool
    anthropic: bool
    store: bool = True
    leaves: bool = False


def plan(count: int, tenants: list[str], seed: int) -> list[Ask]:
    """Questions of every kind, some in bursts, so that they are asked while their answer is under way."""
    drawn = random.Random(seed)
    asks: list[Ask] = []
    while len(asks) < count:
        tenant, model = drawn.choice(tenants), drawn.choice([*MODELS])
        stream, anthropic = drawn.random() < 0.4, drawn.random() < 0.35
        common = (tenant, model)
        roll = drawn.random()
        if roll < 0.02:
            asks.append(Ask(*common, f"error {next(_FRESH)}", stream, anthropic, store=False))
        elif roll < 0.03:
            asks.append(Ask(*common, f"cut {next(_FRESH)}", stream, anthropic, store=False))
        elif roll < 0.035:
            asks.append(Ask(*common, f"slow {next(_FRESH)}", True, anthropic, store=False, leaves=True))
        elif roll < 0.05:
            asks.append(Ask("nobody", model, f"plain {next(_FRESH)}", stream, anthropic))
        elif roll < 0.15:
            asks.append(Ask(*common, f"plain {drawn.randrange(400)}", stream, anthropic, store=False))
        elif roll < 0.18:
            asks += [Ask(*common, f"silent {next(_FRESH)}", stream, anthropic)] * drawn.randrange(1, 4)
        elif roll < 0.3:
            asks += [Ask(*common, f"plain {next(_FRESH)}", stream, anthropic)] * drawn.randrange(2, 8)
        else:
            asks.append(Ask(*common, f"plain {drawn.randrange(400)}", stream, anthropic))
    return asks[:count]


@dataclass
class Clients:
    """Asks and counts: requests, those that ended badly, tokens, and what stored answers are worth."""

    url: str
    keys: dict[str, str]
    prices: PriceTable
    requests: Counter[Seen] = field(default_factory=Counter)
    errors: Counter[Seen] = field(default_factory=Counter)
    prompt: Counter[Seen] = field(default_factory=Counter)
    completion: Counter[Seen] = field(default_factory=Counter)
    saved_pico: Counter[Seen] = field(default_factory=Counter)
    untold: Counter[Seen] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)

    async def run(self, asks: list[Ask]) -> None:
        """Asks everything, several at once, in this order."""
        waiting = iter(asks)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:

            async def client() -> None:
                for ask in waiting:
                    await self._ask(session, ask)

            await asyncio.gather(*(client() for _ in range(_AT_ONCE)))

    async def _ask(self, session: aiohttp.ClientSession, ask: Ask) -> None:
        path = "/v1/messages" if ask.anthropic else "/v1/chat/completions"
        headers = {"authorization": f"Bearer {self.keys[ask.tenant]}"}
        if not ask.store:
            headers["cache-control"] = "no-store, no-cache"
        body: Json = {"model": ask.model, "stream": ask.stream}
        body["messages"] = [{"role": "user", "content": ask.text}]
        if ask.anthropic:
            body["max_tokens"] = 500
        elif ask.stream:
            body["stream_options"] = {"include_usage": True}
        async with session.post(self.url + path, json=body, headers=headers) as reply:
            if ask.leaves and reply.status == _OK:
                await reply.content.readany()
                reply.close()
                self._count(ask, _GONE, reply.headers, None)
                return
            raw = await reply.read()
            if reply.status == _OK:
                self._count(ask, _OK, reply.headers, _usage(raw, ask))
                return
            unjudged = reply.status == _UNKNOWN or b"keys cannot be checked" in raw
            self._count(ask, reply.status, reply.headers, None, judged=not unjudged)

    def _count(self, ask: Ask, status: int, headers: Any, usage: Json | None, *, judged: bool = True) -> None:
        model = MODELS[ask.model]
        layer = _layer(status, headers)
        known = judged and ask.tenant != "nobody"
        seen = (ask.tenant, model, layer) if known else ("-", "-", "none")
        self.statuses[status] += 1
        self.requests[seen] += 1
        self.errors[seen] += status != _OK
        parts = split(usage, engine=False)
        if parts is None:
            self.untold[seen] += status == _OK
            return
        self.prompt[seen] += parts.prompt
        self.completion[seen] += parts.output
        price = self.prices.of(model)
        if price is not None and layer != "model":
            self.saved_pico[seen] += worth(parts, price)


def _layer(status: int, headers: Any) -> str:
    told = headers.get("cache-status", "")
    if "; hit" in told:
        return str(told.rpartition("detail=")[2])
    return "coalesced" if status == _OK and "collapsed" in told else "model"


def _usage(raw: bytes, ask: Ask) -> Json | None:
    """The usage as this client was told it; None when it was told none, or its stream broke off."""
    if not ask.stream:
        usage = orjson.loads(raw).get("usage")
    else:
        events = [orjson.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: {")]
        if any("error" in event for event in events):
            return None
        usage = {}
        for event in events:
            usage |= (event.get("message") or {}).get("usage") or {}
            usage |= event.get("usage") or {}
    if not usage or (ask.anthropic and ask.text.startswith("silent")):
        return None
    return dict(usage)
