"""A step nobody asked for, to compile kernels and to see how much memory the largest step takes."""

from engine.cuda.runner import DeviceRunner
from engine.detokenizer import OutputText
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan, Work


def rehearse(runner: DeviceRunner, tokens: int) -> None:
    """Compute prompts of so many tokens together, and the next token of each.

    Side effects: writes into the pool's first blocks, which must hold the longest prompt and its next token.
    """
    longest = min(tokens, runner.model.config.context) - 1
    prompts = [longest] * (tokens // longest) + [tokens % longest] * (tokens % longest > 0)
    sequences = [_sequence(runner, -1 - index, length) for index, length in enumerate(prompts)]
    runner.run(Plan(tuple(Work(sequence, 0, sequence.num_tokens, 0) for sequence in sequences)))
    for sequence in sequences:
        sequence.output_ids.append(0)
    runner.run(
        Plan(tuple(Work(one, one.num_tokens - 1, 1, one.num_tokens - 1) for one in sequences[: runner.max_rows]))
    )


def _sequence(runner: DeviceRunner, seq_id: int, tokens: int) -> Sequence:
    sequence = Sequence(
        seq_id=seq_id,
        sample_index=0,
        prompt_ids=(0,) * tokens,
        params=SamplingParams(max_tokens=1, temperature=0),
        seed=0,
        output=OutputText(()),
        arrival_s=0.0,
    )
    blocks = list(range(-(-(tokens + 1) // runner.kv.shape.block_size)))
    sequence.tables = [blocks for _ in runner.kv.pools]
    return sequence
