"""The simulator against sums done by hand, and against a step-by-step engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.stream.control import Policy
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.simulator import Batch, Simulator

FLAT = DecodeCurve(((1, 10.0), (2, 10.0)))
RISING = DecodeCurve(((1, 10.0), (2, 12.0)))


def costs(decode: DecodeCurve = FLAT, **changes: object) -> StreamCosts:
    return StreamCosts(decode=decode, **({"prefill_ms": 0.0} | changes))  # type: ignore[arg-type]


def total(lengths: list[int], given: StreamCosts, *, instances: int, **policy: object) -> float:
    batch = Batch.even(lengths, instances=instances)
    return Simulator(given).run(batch, policy=Policy(**policy)).total_ms  # type: ignore[arg-type]


def test_generation_takes_the_longest_share() -> None:
    # the prefill gives a first token, each step one more
    assert total([5, 3, 7, 1], costs(), instances=2) == 60
    assert total([5, 3, 7, 1], costs(RISING), instances=2) == pytest.approx(60)  # 6 steps of one row
    assert total([5, 3], costs(RISING), instances=1) == pytest.approx(2 * 12 + 2 * 10)
    assert total([5, 3], costs(prefill_ms=2.0), instances=1) == 40  # no prompt, nothing to prefill


def test_copies_of_a_prompt_are_prefilled_once() -> None:
    batch = Batch.even([1, 1, 1, 1], instances=1, prompt_tokens=3, n=2)
    assert Simulator(costs(prefill_ms=2.0)).run(batch, policy=Policy()).total_ms == 12


def test_stages_wait_for_the_last_token_and_streaming_does_not() -> None:
    given = costs(infer_ms={"ref": 1.0})
    # instance 0: 90 ms of decoding; instance 1: 10. Tokens to read: 10 and 2
    assert total([10, 2], given, instances=2, streaming=False) == 100
    assert total([10, 2], given, instances=2) == 100
    # eleven short ones on instance 1: 11 x 2 ms of reading, by both afterwards or by instance 1 meanwhile
    lengths = [10] + [1] * 11 + [2] * 12
    assert total(lengths, given, instances=2, streaming=False) > total(lengths, given, instances=2) == 100


def test_a_moved_tail_frees_an_instance_for_inference() -> None:
    given = costs(infer_ms={"ref": 5.0}, link=Link(bytes_per_token=1, bytes_per_ms=1e9))
    lengths = [20, *[2] * 9, 20, *[2] * 9]  # two long ones on two instances, 18 short ones to read: 180 ms
    stay = total(lengths, given, instances=2)
    move = total(lengths, given, instances=2, r_t=2, m=1)
    assert stay == pytest.approx(190 + (18 * 10 + 200) / 2)
    assert move == pytest.approx(290)  # all short ones are read meanwhile, then both long ones at once


def test_moving_costs_what_the_cheaper_way_costs() -> None:
    lengths = [20, 20]
    by_prefill = total(lengths, costs(prefill_ms=1.0), instances=2, r_t=2, m=1)
    assert by_prefill == total(lengths, costs(prefill_ms=1.0), instances=2)  # nothing ends early, so nothing moves
    lengths = [10, 20, 20]
    batch = Batch(np.array(lengths), np.full(3, 4), np.arange(3), np.array([2, 1]))
    slow_link = Link(bytes_per_token=1, bytes_per_ms=0.01)
    for link in (None, slow_link):
        given = costs(prefill_ms=1.0, link=link)
        outcome = Simulator(given).run(batch, policy=Policy(r_t=2, m=1))
        # prompts: 8 ms on instance 0, 4 on 1. At 98 sample 0 ends; sample 2 has 10 tokens at 94, 11 at 104: prefill 15
        assert outcome.moved == 1
        assert outcome.generation_ms == pytest.approx(108 + 15 + 9 * 10)
    fast = Simulator(costs(prefill_ms=1.0, link=Link(bytes_per_token=1, bytes_per_ms=1e9)))
    assert fast.run(batch, policy=Policy(r_t=2, m=1)).generation_ms == pytest.approx(108 + 9 * 10, abs=1e-3)


def test_a_tail_that_finished_before_it_could_move_leaves_the_chance_to_the_rest() -> None:
    # at 40 ms five are left; the one of instance 1 is to move to instance 0, hears of it at 60 and ended at 50
    batch = Batch.even([50, 45, 2, 2, 2, 2, 2, 6, 2, 5, 40, 35], instances=3)
    outcome = Simulator(costs(message_ms=20.0, max_rows=4)).run(batch, policy=Policy(r_t=5, m=1))
    assert outcome.moved == 2  # both of instance 2, which instance 0 has room for now
    assert outcome.generation_ms == 490


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=30),
    instances=st.integers(1, 4),
    rows=st.integers(1, 9),
)
def test_generation_equals_a_replay_step_by_step(lengths: list[int], instances: int, rows: int) -> None:
    batch = Batch.even(lengths, instances=instances, prompt_tokens=2)
    given = StreamCosts(decode=RISING, prefill_ms=0.5, max_rows=rows)
    found = Simulator(given).run(batch, policy=Policy()).generation_ms
    assert found == pytest.approx(replay(batch, given))


def replay(batch: Batch, given: StreamCosts) -> float:
    """Each instance steps on its own clock; the queue is shared, first in time first served."""
    ends = np.cumsum(batch.share_I)
    shares = [list(range(end - size, end)) for end, size in zip(ends, batch.share_I, strict=True)]
    live = [{j: int(batch.length_N[j]) - 1 for j in share[: given.max_rows]} for share in shares]
    queue = [j for share in shares for j in share[given.max_rows :]]
    clock = [given.prefill_ms * int(batch.prompt_N[list(rows)].sum()) for rows in live]
    while any(live):
        # the instance whose next sample ends first
        ending = [
            c + min(rows.values()) * given.decode.step_ms(len(rows)) if rows else np.inf
            for c, rows in zip(clock, live, strict=True)
        ]
        i = int(np.argmin(ending))
        steps = min(live[i].values())
        clock[i] += steps * given.decode.step_ms(len(live[i]))
        live[i] = {j: left - steps for j, left in live[i].items() if left > steps}
        while queue and len(live[i]) < given.max_rows:
            j = queue.pop(0)
            clock[i] += given.prefill_ms * int(batch.prompt_N[j])
            live[i][j] = int(batch.length_N[j]) - 1
    return max(clock)


@given(
    lengths=st.lists(st.integers(1, 60), min_size=4, max_size=40),
    r_t=st.integers(0, 30),
    m=st.integers(1, 3),
    link=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_sample_ends_whatever_moves(lengths: list[int], r_t: int, m: int, link: bool) -> None:
    batch = Batch.even(lengths, instances=3, prompt_tokens=2)
    given = StreamCosts(
        decode=RISING,
        prefill_ms=0.3,
        link=Link(bytes_per_token=1, bytes_per_ms=3.0) if link else None,
        infer_ms={"ref": 0.2, "values": 0.1},
        message_ms=0.7,
    )
    moved = Simulator(given).run(batch, policy=Policy(r_t=r_t, m=m))
    stayed = Simulator(given).run(batch, policy=Policy())
    assert 0 <= moved.moved <= r_t
    assert moved.total_ms >= moved.generation_ms > 0
    reading = sum(given.infer_ms.values()) * (sum(lengths) + 2 * len(lengths))
    assert moved.total_ms >= reading / 3
    if not moved.moved:
        assert moved == stayed
