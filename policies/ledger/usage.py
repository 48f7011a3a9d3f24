"""A usage object split by where the prompt's tokens came from; every protocol's form is read."""

from typing import Any, NamedTuple

from policies.types import Json

MOST_TOKENS = 100_000_000
"""More than any model reads; an upstream that reports more is taken to mean this."""

_RAM = ("ram", "host", "cpu")
_DISK = ("disk", "storage")
_READ_BESIDE = ("cache_read_input_tokens", "prompt_cache_hit_tokens")
_NOTHING: Json = {}


class Split(NamedTuple):
    """Tokens of one answer; all but `output` add up to the prompt.

    Attributes:
        fresh: computed, and not reported as written to a cache.
        device, ram, disk: read from the engine's prefix cache, by where it had them.
        read: read from a provider's prompt cache.
        write_5m, write_1h: computed and written to a prompt cache, for less than an hour and for longer.
        output: of the answer, thoughts included.
    """

    fresh: int
    device: int
    ram: int
    disk: int
    read: int
    write_5m: int
    write_1h: int
    output: int

    @property
    def prompt(self) -> int:
        """The whole prompt."""
        return sum(self[:-1])

    @property
    def cached(self) -> int:
        """What was read from a cache, whoever's."""
        return self.device + self.ram + self.disk + self.read

    @property
    def written(self) -> int:
        """What was written to one."""
        return self.write_5m + self.write_1h


class _Told(NamedTuple):
    prompt: int
    output: int
    read: int
    written: int
    lives: Json
    tiers: Json


def split(usage: Json | None, *, engine: bool) -> Split | None:
    """Where an answer's tokens came from; None when the usage is silent.

    Figures that contradict each other are cut so that the parts add up to the prompt: reads first, then writes.

    Args:
        usage: OpenAI chat (what the gateway keeps), OpenAI Responses, Anthropic or Gemini form.
        engine: whether a prefix cache of one's own served it; reads without a tier are then its device's.
    """
    told = _told(usage) if usage else None
    if told is None:
        return None
    read = min(told.read, told.prompt)
    written = min(told.written, told.prompt - read)
    long = min(written, _long(told.lives)) if written and told.lives else 0
    ram = disk = 0
    if read and told.tiers:
        ram = min(read, _first(told.tiers, _RAM))
        disk = min(read - ram, _first(told.tiers, _DISK))
    rest = read - ram - disk
    device, provider = (rest, 0) if engine or told.tiers else (0, rest)
    return Split(told.prompt - read - written, device, ram, disk, provider, written - long, long, told.output)


def _told(usage: Json) -> _Told | None:
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        return _chat(usage)
    if "input_tokens" in usage or "output_tokens" in usage:
        return _responses(usage) if "input_tokens_details" in usage else _anthropic(usage)
    if "promptTokenCount" in usage:
        return _gemini(usage)
    return None


def _chat(usage: Json) -> _Told:
    prompt, output = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):
        details = _NOTHING
    read = _count(details, "cached_tokens") or _first(usage, _READ_BESIDE)
    written = _count(details, "cache_write_tokens") or _count(usage, "cache_creation_input_tokens")
    lives = _object(details, "cache_write_tokens_details") or _object(usage, "cache_creation")
    return _Told(prompt, output, read, written, lives, _object(details, "cached_tokens_details"))


def _responses(usage: Json) -> _Told:
    details = _object(usage, "input_tokens_details")
    read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    return _Told(_count(usage, "input_tokens"), _count(usage, "output_tokens"), read, written, {}, {})


def _anthropic(usage: Json) -> _Told:
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "input_tokens") + read + written
    lives = _object(usage, "cache_creation")
    return _Told(min(prompt, MOST_TOKENS), _count(usage, "output_tokens"), read, written, lives, {})


def _gemini(usage: Json) -> _Told:
    said = _count(usage, "candidatesTokenCount") + _count(usage, "thoughtsTokenCount")
    read = _count(usage, "cachedContentTokenCount")
    return _Told(_count(usage, "promptTokenCount"), said, read, 0, {}, {})


def _long(lives: Json) -> int:
    """Of what was written, what lives an hour or longer: `ttl_1h_tokens`, `ephemeral_1h_input_tokens`."""
    return sum(_count(lives, name) for name in lives if _is_long(name))


def _is_long(name: str) -> bool:
    life = name.split("_")[1] if name.count("_") > 1 else ""
    return life[:-1].isdigit() and life[-1:] in ("h", "d")


def _first(found: Json, names: tuple[str, ...]) -> int:
    for name in names:
        if name in found:
            return _count(found, name)
    return 0


def _object(parent: Json, name: str) -> Json:
    value = parent.get(name)
    return value if isinstance(value, dict) else _NOTHING


def _count(parent: Json, name: str) -> int:
    value: Any = parent.get(name)
    if type(value) is not int or value < 0:
        return 0
    return min(MOST_TOKENS, value)
