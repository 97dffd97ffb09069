"""The tail lands whole on the fullest instances, within what they can take, and moves as little as that allows."""

from hypothesis import given
from hypothesis import strategies as st

from fusedrl.stream.migration import choose_destinations, plan_moves

loads = st.lists(st.integers(0, 12), min_size=1, max_size=8).map(lambda counts: dict(enumerate(counts)))


def samples_of(counts: dict[int, int]) -> dict[int, list[int]]:
    return {i: [100 * i + k for k in range(count)] for i, count in counts.items()}


@given(counts=loads, keep=st.integers(1, 8), rows=st.integers(1, 40))
def test_everything_is_somewhere_once_and_fits(counts: dict[int, int], keep: int, rows: int) -> None:
    samples = samples_of(counts)
    moves = plan_moves(samples, keep=keep, rows=rows)
    stay = choose_destinations(counts, keep=keep, rows=rows)
    after = {i: list(ids) for i, ids in samples.items()}
    for move in moves:
        assert move.source not in stay
        assert move.destination in stay
        after[move.source] = [each for each in after[move.source] if each not in move.sample_ids]
        after[move.destination] += move.sample_ids
    assert sorted(each for ids in after.values() for each in ids) == sorted(e for ids in samples.values() for e in ids)
    assert all(not ids for i, ids in after.items() if i not in stay)
    assert all(len(after[i]) <= max(rows, counts[i]) for i in stay)


@given(counts=loads, keep=st.integers(1, 8), rows=st.integers(1, 40))
def test_the_fullest_stay_and_no_more_than_needed(counts: dict[int, int], keep: int, rows: int) -> None:
    stay = choose_destinations(counts, keep=keep, rows=rows)
    loaded = [i for i in counts if counts[i]]
    assert len(stay) <= len(loaded)
    if stay and len(stay) < len(loaded):
        assert min(counts[i] for i in stay) >= max(counts[i] for i in loaded if i not in stay)
    if keep < len(stay) < len(loaded):
        assert sum(max(rows, counts[i]) for i in stay[:-1]) < sum(counts.values())


def test_an_example() -> None:
    moves = plan_moves({0: [1], 1: [2, 3, 4, 5], 2: [], 3: [6, 7]}, keep=1, rows=100)
    assert [(move.source, move.destination, move.sample_ids) for move in moves] == [(0, 1, (1,)), (3, 1, (6, 7))]
    assert not plan_moves({0: [1], 1: [2]}, keep=2, rows=100)
    assert not plan_moves({0: [1, 2], 1: [3, 4]}, keep=1, rows=3)  # four do not fit into three rows
