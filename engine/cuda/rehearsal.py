"""A step nobody asked for, to compile kernels and to see how much memory the largest step takes."""

from engine.cuda.runner import DeviceRunner
from engine.detokenizer import OutputText
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.work import Plan, Work


def rehearse(runner: DeviceRunner, tokens: int) -> None:
    """Compute one prompt of that many tokens, and its next token; the pool must hold it.

    Side effects: writes into the pool's first blocks.
    """
    blocks = list(range(-(-(tokens + 1) // runner.kv.shape.block_size)))
    sequence = Sequence(
        seq_id=-1,
        sample_index=0,
        prompt_ids=(0,) * tokens,
        params=SamplingParams(max_tokens=1, temperature=0),
        seed=0,
        output=OutputText(()),
        arrival_s=0.0,
    )
    sequence.tables = [blocks for _ in runner.kv.pools]
    runner.run(Plan((Work(sequence, 0, tokens, 0),)))
    sequence.output_ids.append(0)
    runner.run(Plan((Work(sequence, tokens, 1, tokens),)))
