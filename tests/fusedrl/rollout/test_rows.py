"""Row bookkeeping: stop sets, limits, and rows that keep what they hold when others leave."""

import pytest
import torch

from fusedrl.rollout.requests import Request
from fusedrl.rollout.rows import Rows
from fusedrl.rollout.sampling import SamplingParams


def rows(*, slots: int = 8, max_length: int = 12) -> Rows:
    return Rows(slots=slots, max_length=max_length, vocab_size=50)


def request(
    sample_id: int, *, prompt: tuple[int, ...] = (1, 2), stop: tuple[int, ...] = (), max_tokens: int = 5
) -> Request:
    params = SamplingParams(stop_token_ids=frozenset(stop), max_tokens=max_tokens)
    return Request(sample_id=sample_id, prompt=prompt, params=params)


def record(r: Rows, tokens: list[int]) -> list[int]:
    r.record(torch.tensor(tokens), -torch.arange(len(tokens)).float())
    return r.finished()


def test_each_row_has_its_own_stop_set_and_limit():
    r = rows()
    r.append([request(0, stop=(7, 9)), request(1, stop=(8,)), request(2, max_tokens=2), request(3, prompt=(1,) * 11)])
    assert record(r, [1, 9, 7, 3]) == [3]  # row 3 reached max_length 12
    assert record(r, [9, 7, 8, 0]) == [0, 2, 3]
    assert r.completion(0).finish_reason == "stop"
    assert r.completion(0).tokens == (1, 9)
    assert r.completion(2).finish_reason == "length"


def test_stop_at_the_last_allowed_token_counts_as_stop():
    r = rows()
    r.append([request(0, stop=(7,), max_tokens=1)])
    assert record(r, [7]) == [0]
    assert r.completion(0).finish_reason == "stop"


@pytest.mark.parametrize("gone", [[0], [3], [0, 1], [1, 3], [0, 3], [0, 1, 2, 3]])
def test_removal_keeps_the_other_rows(gone):
    r = rows()
    r.append([request(i, prompt=(1,) * (i + 1)) for i in range(4)])
    record(r, [10, 11, 12, 13])
    kept = {i: r.snapshot(i) for i in range(4) if i not in gone}
    source, target = r.remove(gone)
    assert len(source) == len(target)
    assert len(r) == len(kept)
    for row in range(len(r)):
        snapshot = r.snapshot(row)
        assert snapshot == kept.pop(snapshot.sample_id)
        assert int(r.last_token_R[row]) == snapshot.response[-1]
        assert int(r.length_R[row]) == len(snapshot.tokens)
    assert not kept


def test_moves_point_from_rows_that_stay_to_rows_that_left():
    r = rows()
    r.append([request(i) for i in range(5)])
    source, target = r.remove([1, 4, 0])
    assert source.tolist() == [2, 3]
    assert target.tolist() == [0, 1]
    assert [q.sample_id for q in r.requests] == [2, 3]


def test_uniforms_follow_the_sample_through_moves_and_resumption():
    r = rows()
    r.append([request(i) for i in range(3)])
    record(r, [5, 5, 5])
    before = r.uniforms()[2]
    r.remove([0])
    assert r.uniforms()[0] == before  # row 2 moved to row 0
    fresh = rows()
    fresh.append([r.snapshot(0)])
    assert fresh.uniforms()[0] == before


def test_resumed_rows_count_earlier_tokens_against_the_limit():
    r = rows()
    earlier = Request(
        sample_id=0, prompt=(1,), params=SamplingParams(max_tokens=3), response=(4, 5), logprobs=(-1.0, -2.0)
    )
    r.append([earlier])
    assert record(r, [6]) == [0]
    assert r.completion(0).tokens == (4, 5, 6)
    assert r.completion(0).logprobs == (-1.0, -2.0, 0.0)


def test_stop_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(ValueError, match=r"\[50\].*vocabulary of 50"):
        rows().append([request(0, stop=(50, 3))])
