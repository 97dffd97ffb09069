"""Blocks of tokens: every sample once, every token's time."""

from collections.abc import Sequence

import pytest

from fusedrl.bench.plan_decoding import Block, TokenTimes, blocks, by_batch, engine_blocks
from fusedrl.plan.calls import Way
from tests.fusedrl.bench.scenes import BOTH, LEFT, pricer

PROMPT = 16


def times(way: Way) -> TokenTimes:
    found = pricer()
    return TokenTimes(found.costs, found.models["actor"], way)


def made(way: Way, lengths: Sequence[int], *, least: float = 1e-9) -> list[Block]:
    return blocks(times(way), range(len(lengths)), lengths, prompt=PROMPT, least=least)


def total(found: Sequence[Block], stage: int = 0) -> float:
    return sum(block.seconds[stage] for block in found)


def test_time_is_prompts_and_each_token_with_its_rows() -> None:
    """Two rows, of which one ends first: by hand."""
    way = Way(LEFT, size=4)
    by_hand = times(way).prompts(2, PROMPT)[0] + times(way).token(2, 16.0)[0]
    by_hand += times(way).token(2, 17.0)[0] + times(way).token(1, 18.0)[0]
    assert total(made(way, [2, 3])) == pytest.approx(by_hand)


def test_a_waiting_sample_takes_a_free_row_at_once() -> None:
    way = Way(LEFT, size=1)
    found = made(way, [2, 1])
    by_hand = sum(times(way).prompts(1, PROMPT)) * 2 + times(way).token(1, 16.0)[0] * 2 + times(way).token(1, 17.0)[0]
    assert total(found) == pytest.approx(by_hand)
    assert [block.ended for block in found if block.ended] == [(0,), (1,)]


@pytest.mark.parametrize(
    "way", [Way(LEFT, size=3), Way(BOTH, pp=2, size=8), Way(BOTH, pp=2, size=3), Way(BOTH, tp=2, size=2)]
)
def test_every_sample_ends_once_whatever_the_blocks(way: Way) -> None:
    lengths = [5, 1, 9, 3, 3, 7, 2, 4]
    for least in (1e-9, 1e-3, 1e9):
        found = made(way, lengths, least=least)
        assert sorted(sample for block in found for sample in block.ended) == list(range(8))


def test_longer_blocks_change_no_time() -> None:
    way = Way(LEFT, size=3)
    short, long = made(way, [5, 1, 9, 3]), made(way, [5, 1, 9, 3], least=1e-3)
    assert len(long) < len(short)
    assert total(short) == pytest.approx(total(long))
    assert all(block.seconds[0] >= 1e-3 for block in long[:-1])


def test_stages_share_layers_and_have_batches_in_flight() -> None:
    found = made(Way(BOTH, pp=2, size=4), [6, 6, 6, 6])
    assert {block.batch for block in found} == {0, 1}
    assert [block.batch for block, first in by_batch(found) if first] == [0, 1]
    assert total(found, 0) < total(found, 1)  # the last stage has the head too
    one = times(Way(BOTH, pp=2, size=4)).token(2, 20.0)
    assert one[0] == pytest.approx(one[1] - pricer().costs.decode_ends(pricer().models["actor"], tp=1, rows=2))


def test_samples_are_dealt_to_engines_in_turn() -> None:
    lengths = [3, 1, 4, 1, 5]
    found = [engine_blocks(times(Way(BOTH, size=8)), lengths, engine=e, prompt=PROMPT, least=1e-9) for e in (0, 1)]
    assert [sorted(s for block in each for s in block.ended) for each in found] == [[0, 2, 4], [1, 3]]
