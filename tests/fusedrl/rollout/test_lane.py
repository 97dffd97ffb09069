"""Whatever comes, leaves, gives way or moves: each row's cache holds its own tokens, and every sample is completed."""

from collections import deque

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.rollout.cache import CacheShape
from fusedrl.rollout.decoder import Decode, Prefill
from fusedrl.rollout.lane import Lane, Waiting
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams

MAX_LENGTH, VOCAB = 60, 1000


def lane(*, rows: int, tokens: int | None) -> Lane:
    shape = CacheShape(
        layers=1, rows=rows, max_length=MAX_LENGTH, groups=1, head_dim=1, dtype=torch.float64, tokens=tokens
    )
    return Lane(shape, vocab_size=VOCAB, prefill_tokens=50)


def request(sample_id: int, *, prompt: int, new: int, same: bool = False) -> Request:
    first = 0 if same else sample_id
    tokens = tuple((7 * first + 3 * t) % VOCAB for t in range(prompt))
    return Request(sample_id=sample_id, prompt=tokens, params=SamplingParams(max_tokens=new))


def next_token(request: Request, position: int) -> int:
    return (31 * request.sample_id + 17 * position + 5) % VOCAB


def run(part: Prefill | Decode, lane: Lane) -> None:
    """What a model does to the cache, with the tokens in place of keys and values."""
    if isinstance(part, Decode):
        flat_R = torch.arange(part.tokens) * lane.cache.capacity + part.position_R
        lane.cache.append(
            0, flat_R=flat_R, keys_values_RG2D=part.token_R.double()[:, None, None, None].repeat(1, 1, 2, 1)
        )
        return
    tokens_RT = part.tokens_PT if part.prompt_R is None else part.tokens_PT[part.prompt_R]
    kv_RTG2D = tokens_RT.double()[:, :, None, None, None].repeat(1, 1, 1, 2, 1)
    lane.cache.write_rows(0, first_row=part.first_row, keys_values_RTG2D=kv_RTG2D)


def cached(lane: Lane, row: int, length: int) -> list[int]:
    keys, values = lane.cache.read(0, rows=len(lane.rows), length=length)
    assert torch.equal(keys, values)
    return keys[row, 0, :, 0].long().tolist()


def turn(lane: Lane, waiting: deque[Waiting], ages: dict[int, int], *, most: int = 99) -> tuple[list, int, int]:
    """(completions, rows that gave way, tokens that were shared) of one turn."""
    given_up = lane.preempt(ages)
    waiting.extendleft(Waiting(r) for r in reversed(given_up))
    seated = lane.seat(lane.take(waiting, most=most))
    for part in seated.parts:
        run(part, lane)
    for row in range(len(lane.rows)):
        tokens = list(lane.rows.snapshot(row).tokens)
        assert cached(lane, row, len(tokens)) == tokens
    drawn = [next_token(lane.rows.requests[r], int(lane.rows.length_R[r])) for r in range(len(lane.rows))]
    done = lane.record(torch.tensor(drawn, dtype=torch.int64), torch.zeros(len(drawn)))
    return done, len(given_up), seated.shared_tokens


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30), st.booleans()), min_size=1, max_size=10),
    st.integers(1, 6),
    st.none() | st.integers(MAX_LENGTH, 4 * MAX_LENGTH),
    st.integers(1, 9),
)
def test_every_sample_is_completed_from_its_own_tokens_under_any_budget(sizes, rows, tokens, most):
    wanted = [request(i, prompt=p, new=n, same=same) for i, (p, n, same) in enumerate(sizes)]
    one, ages = lane(rows=rows, tokens=tokens), {r.sample_id: r.sample_id for r in wanted}
    waiting, done = deque(Waiting(r) for r in wanted), []
    for _ in range(2000):
        if not waiting and not len(one.rows):
            break
        done += turn(one, waiting, ages, most=most)[0]
        assert tokens is None or one.cache.bytes <= tokens * 2 * 8
    assert sorted(c.sample_id for c in done) == sorted(ages)
    for completion in done:
        of = wanted[completion.sample_id]
        length = len(of.prompt)
        assert completion.tokens == tuple(next_token(of, length + t) for t in range(of.params.max_tokens))


def test_the_youngest_give_way_and_come_back_first():
    one = lane(rows=4, tokens=150)
    wanted = [request(i, prompt=16, new=40) for i in range(5)]
    waiting, ages = deque(Waiting(r) for r in wanted), {i: i for i in range(5)}
    gone = 0
    while not gone:
        gone = turn(one, waiting, ages)[1]
    # 4 rows of 32 places, then 3 of 48
    assert [r.sample_id for r in one.rows.requests] == [0, 1, 2]
    assert [w.request.sample_id for w in waiting] == [3, 4]
    assert len(waiting[0].request.response) > 0
    assert not waiting[1].request.response


def test_an_old_row_is_never_given_up_for_a_younger_longer_one():
    one = lane(rows=2, tokens=MAX_LENGTH + 4)
    old, young = request(5, prompt=2, new=50), request(1, prompt=20, new=39)
    waiting, ages = deque([Waiting(old), Waiting(young)]), {5: 0, 1: 1}
    finished = []
    while waiting or len(one.rows):
        finished += [c.sample_id for c in turn(one, waiting, ages)[0]]
    assert finished == [5, 1]


def test_a_prompt_that_sits_in_the_cache_is_copied_not_prefilled():
    one = lane(rows=4, tokens=None)
    first, second, other = (request(i, prompt=20, new=9, same=i < 2) for i in range(3))
    ages = {0: 0, 1: 1, 2: 2}
    assert turn(one, deque([Waiting(first)]), ages)[2] == 0
    assert turn(one, deque([Waiting(second), Waiting(other)]), ages)[2] == 19


def test_rows_with_their_cache_are_seated_without_a_prefill():
    source, target = lane(rows=3, tokens=None), lane(rows=3, tokens=None)
    wanted = [request(i, prompt=5 + i, new=9) for i in range(3)]
    waiting, ages = deque(Waiting(r) for r in wanted), {i: i for i in range(3)}
    for _ in range(3):
        turn(source, waiting, ages)
    moved = source.rows.snapshot(1)
    kv_LNG2D = source.cache.pack([1], lengths=[len(moved.tokens) - 1])
    source.drop([1])
    seated = target.seat(target.take(deque([Waiting(moved, kv_LNG2D)]), most=9))
    assert [type(part) for part in seated.parts] == [Decode]
    assert seated.prefill_tokens == 0
    run(seated.parts[0], target)
    assert cached(target, 0, len(moved.tokens)) == list(moved.tokens)
