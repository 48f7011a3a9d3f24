"""Clients of the stack: streams and whole answers over HTTP, each told whether it came to its end."""

import asyncio
from dataclasses import dataclass, field

import aiohttp


@dataclass
class Load:
    """Asks again and again until it is told to stop.

    Attributes:
        whole: streams that ended with `[DONE]`.
        hits: answers from the cache.
        broken: what went otherwise.
        open: streams under way.
    """

    url: str
    key: str
    whole: int = 0
    hits: int = 0
    open: int = 0
    broken: list[str] = field(default_factory=list)
    stopping: bool = False
    may_be_refused: bool = False

    async def streams(self, session: aiohttp.ClientSession, name: str, tokens: int) -> None:
        """One stream after the other."""
        number = 0
        while not self.stopping:
            number += 1
            body = self.body(f"Tell story {name} {number}.", max_tokens=tokens, stream=True)
            await self._stream(session, body)

    async def repeats(self, session: aiohttp.ClientSession) -> None:
        """The same question over and over."""
        while not self.stopping:
            body = self.body("What is the capital of France?")
            try:
                async with session.post(f"{self.url}/v1/chat/completions", json=body) as response:
                    text = await response.text()
                    if response.status == 200 and '"finish_reason"' in text:
                        self.hits += response.headers.get("x-lamina-cache") == "HIT"
                    elif not (self.may_be_refused and response.status in {502, 503}):
                        self.broken.append(f"whole: {response.status} {text[:200]}")
            except (aiohttp.ClientError, TimeoutError) as error:
                self.broken.append(f"whole: {type(error).__name__} {error}")
            await asyncio.sleep(0.02)

    async def _stream(self, session: aiohttp.ClientSession, body: object) -> None:
        self.open += 1
        try:
            async with session.post(f"{self.url}/v1/chat/completions", json=body) as response:
                text = await response.text()
                if response.status == 200 and text.endswith("data: [DONE]\n\n") and '"error"' not in text:
                    self.whole += 1
                elif not (self.may_be_refused and response.status in {502, 503}):
                    self.broken.append(f"stream: {response.status} {text[-200:]}")
        except (aiohttp.ClientError, TimeoutError) as error:
            self.broken.append(f"stream: {type(error).__name__} {error}")
        finally:
            self.open -= 1

    def body(self, text: str, **fields: object) -> dict[str, object]:
        """A chat request with one question."""
        return {"model": "smollm2", "temperature": 0, "messages": [{"role": "user", "content": text}], **fields}

    def session(self) -> aiohttp.ClientSession:
        """A client of its own pool."""
        timeout = aiohttp.ClientTimeout(total=300)
        return aiohttp.ClientSession(headers={"authorization": f"Bearer {self.key}"}, timeout=timeout)
