"""The device's block tables follow the sequences' own, whatever happens to those."""

import random

import pytest

from engine.cuda.tables import DeviceTables, TableShape
from engine.errors import EngineError

NULLS = (90, 91)


def make(places: int = 3, width: int = 6) -> DeviceTables:
    return DeviceTables(TableShape(places, width, NULLS), "cpu")


def test_padding_points_at_the_null_blocks() -> None:
    tables = make()
    assert [set(tensor[tables.padding].tolist()) for tensor in tables.tensors] == [{90}, {91}]


def test_they_follow_growth_copies_windows_and_preemption() -> None:
    tables, draw = make(), random.Random(1)
    live = {seq_id: [[], []] for seq_id in range(5)}
    storage = [tensor.data_ptr() for tensor in tables.tensors]
    for _ in range(300):
        chosen = draw.sample(sorted(live), draw.randint(1, 3))
        for seq_id in chosen:
            for table in live[seq_id]:
                match draw.randint(0, 4):
                    case 0 if len(table) < 6:
                        table.append(draw.randint(0, 80))
                    case 1 if table:  # copy-on-write of the tail
                        table[-1] = draw.randint(0, 80)
                    case 2 if table:  # a block has left the window
                        table[draw.randrange(len(table))] = -1
                    case 3:  # preempted and admitted again; may end on the same block as before
                        table[:] = [draw.randint(0, 3) for _ in range(draw.randint(0, 6))]
        rows = tables.place([(seq_id, live[seq_id]) for seq_id in chosen])
        assert len(set(rows)) == len(rows)
        for seq_id, row in zip(chosen, rows, strict=True):
            for tensor, table in zip(tables.tensors, live[seq_id], strict=True):
                assert tensor[row, : len(table)].tolist() == table
    assert [tensor.data_ptr() for tensor in tables.tensors] == storage
    assert tables.tensors[0][tables.padding].tolist() == [90] * 6


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(EngineError, match="a step of 4 sequences has more than 3 places"):
        make().place([(seq_id, [[1], [1]]) for seq_id in range(4)])
    with pytest.raises(EngineError, match="a table of 7 blocks has more than 6"):
        make().place([(0, [[1] * 7, [1]])])


def test_nothing_travels_when_nothing_has_changed() -> None:
    tables = make()
    tables.place([(0, [[1, 2], [3, 4]])])
    version = tables.tensors[0]._version
    tables.place([(0, [[1, 2], [3, 4]])])
    assert tables.tensors[0]._version == version
    (row,) = tables.place([(0, [[1, 2, 5], [3]])])
    assert [tensor[row, :3].tolist()[:count] for tensor, count in zip(tables.tensors, (3, 1), strict=True)] == [
        [1, 2, 5],
        [3],
    ]
