"""`lamina plan`."""

import re
from pathlib import Path

import click
from rich.console import Group
from rich.table import Table

from engine.errors import EngineError
from engine.plan.files import find_model
from engine.plan.kv import KV_TYPES
from engine.plan.named import SHAPES
from engine.plan.plan import WEIGHT_BITS, Plan, Question, Variant, make_plan
from gateway.cli.administration import Outcome, json_option, show
from gateway.errors import LaminaError
from gateway.settings import settings_from_environment

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BAR_CELLS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_CELL_PARTS = 8
_STEP = 1024
_PACKAGED = "smollm2-135m"


class PlanError(LaminaError):
    """The model is not known or cannot be read."""


class Size(click.ParamType[int]):
    """`24GiB`, `24G`, `800M` or bytes; units are powers of 1,024."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is no size such as 24GiB or 800M", param, ctx)
        return int(float(found[1]) * _UNITS[found[2].upper()])


@click.command(
    help=f"""Shows what MODEL's context takes in memory, how many sequences fit, and what would save how much.

    MODEL is a folder, a GGUF file, or a shape known by name: {", ".join(SHAPES)}. Without one it is the embedded
    engine's.
    """
)
@click.argument("model", required=False)
@click.option("--context", type=click.IntRange(1), help="Tokens of a sequence; the model's longest when absent.")
@click.option("--memory", type=Size(), help="For weights and cache, such as 24GiB; what is free here when absent.")
@click.option(
    "--kv-dtype", type=click.Choice([*KV_TYPES]), default="fp16", show_default=True, help="Of the cache."
)
@click.option(
    "--weights", type=click.Choice([*WEIGHT_BITS]), help="Of the weights; as the file has them, or fp16."
)
@json_option
def plan(  # noqa: PLR0917  (click passes names)
    model: str | None, context: int | None, memory: int | None, kv_dtype: str, weights: str | None, as_json: bool
) -> None:
    """Prints the plan."""
    try:
        found = find_model(model or str(settings_from_environment().engine.model or _PACKAGED))
        question = Question(
            context=context or found.shape.context,
            memory_bytes=free_memory_bytes() if memory is None else memory,
            kv=kv_dtype,
            weights=weights or "fp16",
            stored_bytes=found.stored_bytes if weights is None else None,
        )
        made = make_plan(found.shape, question)
    except EngineError as error:
        raise PlanError(str(error)) from None
    show(Outcome(made.as_json(), _shown(made)), as_json=as_json)


def free_memory_bytes(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int:
    """What this machine could give a new process now, within the limit of its control group.

    Raises:
        PlanError: the system does not tell.
    """
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo.read_text("ascii"), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        raise PlanError("this system does not tell its free memory; give --memory")
    free = int(found[1]) * 1024
    try:
        limit, used = ((group / name).read_text("ascii").strip() for name in ("memory.max", "memory.current"))
        return free if limit == "max" else max(0, min(free, int(limit) - int(used)))
    except (OSError, ValueError):
        return free


def _shown(made: Plan) -> Group:
    shape, question = made.shape, made.question
    groups = f"{shape.heads} heads, {shape.kv_heads} for keys and values" if shape.latent is None else "one latent"
    kept = "as stored" if question.stored_bytes is not None else question.weights
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_row("model", f"{shape.name}: {shape.attention}, {shape.layers} layers, {groups}")
    facts.add_row("weights", f"{sized(made.weights_bytes)} for {made.parameters / 1e6:,.0f} M ({kept})")
    facts.add_row("KV cache", f"{sized(made.kv_token_bytes)} a token ({question.kv})")
    facts.add_row("one sequence", f"{sized(made.kv_sequence_bytes)} for {question.context:,} tokens")
    facts.add_row(
        "memory", f"{sized(question.memory_bytes)}, of which {sized(made.cache_bytes)} are for the cache"
    )
    facts.add_row("sequences", f"{made.sequences:,} of {question.context:,} tokens fit")
    saved = Table(title="What one sequence takes, against multi-head attention in fp16", title_justify="left")
    for name in ("", "a token", "a sequence", "fit", "share", "saves"):
        saved.add_column(name, justify="left" if not name else "right")
    saved.add_column("", width=_BAR_CELLS, no_wrap=True)
    for variant in made.variants:
        saved.add_row(*_row(variant), style="bold" if variant.own else None)
    return Group(facts, "", saved, "", _advice(made))


def _row(variant: Variant) -> tuple[str, ...]:
    share, saves = f"{variant.share:.1%}", f"{max(0.0, 1 - variant.share):.1%}"
    name = f"{variant.name} *" if variant.own else variant.name
    taken = (sized(variant.token_bytes), sized(variant.sequence_bytes), f"{variant.sequences:,}")
    return name, *taken, share, saves, bar(variant.share)


def bar(share: float) -> str:
    """A bar of `_BAR_CELLS` characters at share 1, in eighths of a character."""
    parts = round(min(1.0, share) * _BAR_CELLS * _CELL_PARTS)
    full, rest = divmod(parts, _CELL_PARTS)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _advice(made: Plan) -> str:
    if not made.kv_tokens:
        return "The weights leave no room for a cache here: choose smaller weights or more memory."
    wanted = {"kv-dtype": made.question.kv, "kv-tokens": made.kv_tokens, "max-running": made.max_running}
    flags = " ".join(f"--{name} {value}" for name, value in wanted.items())
    names = " ".join(f"LAMINA_ENGINE__{name.replace('-', '_').upper()}={value}" for name, value in wanted.items())
    return f"* the cache asked about. Engine: {flags}\nWhole set: {names}"


def sized(count: int) -> str:
    """Bytes for people: 128 KiB, 1.5 GiB."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:.4g} {unit}" if value < _STEP else f"{value:,.0f} {unit}"
