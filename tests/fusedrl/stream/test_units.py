"""Units do not depend on arrival, each is handed out once, and only when all its samples are there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.stream.units import ReadyUnits, compose


@given(ids=st.sets(st.integers(0, 99), max_size=30), size=st.integers(1, 9), random=st.randoms())
def test_groups_are_the_same_in_any_order(ids, size, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(ids)
    random.shuffle(shuffled)
    groups = compose(shuffled, size=size)
    assert groups == compose(sorted(ids), size=size)
    assert [each for group in groups for each in group] == sorted(ids)
    assert all(len(group) == size for group in groups[:-1])


def test_a_unit_reads_a_sample_at_least() -> None:
    with pytest.raises(ValueError, match=r"unit_size=0"):
        compose([1], size=0)


@given(
    count=st.integers(1, 20),
    size=st.integers(1, 4),
    tasks=st.sampled_from([(), ("ref",), ("ref", "values")]),
    tokens=st.integers(0, 500),
    random=st.randoms(),
)
def test_every_unit_is_taken_once_and_when_it_is_ready(count, size, tasks, tokens, random) -> None:  # type: ignore[no-untyped-def]
    groups = compose(range(count), size=size)
    units, arrived, taken = ReadyUnits(groups, tasks=tasks), set(), []
    order = list(range(count))
    random.shuffle(order)
    for sample_id in order:
        units.finished(sample_id, tokens=10 + sample_id)
        arrived.add(sample_id)
        if random.random() < 0.5:
            taken += drain(units, arrived, groups, last=random.choice(["", *tasks]), tokens=tokens, once=True)
    taken += drain(units, arrived, groups, last="", tokens=tokens)
    assert sorted(taken) == sorted((task, index) for task in tasks for index in range(len(groups)))
    assert not units
    assert units.tokens == 0


def drain(units, arrived, groups, *, last, tokens, once=False):  # type: ignore[no-untyped-def]
    taken = []
    while (chunk := units.take(last_task=last, tokens=tokens)) is not None:
        assert all(arrived.issuperset(groups[index]) for index in chunk.groups)
        taken += [(unit.task, unit.index) for unit in chunk.units]
        if once:
            break
    return taken


def test_the_largest_go_first_until_the_chunk_is_full_and_a_task_goes_on() -> None:
    units = ReadyUnits([(i,) for i in range(4)], tasks=("ref", "values"))
    for sample_id, tokens in enumerate((10, 40, 20, 30)):
        units.finished(sample_id, tokens=tokens)
    assert units.tokens == 200
    chunk = units.take(last_task="values", tokens=50)
    assert chunk is not None
    assert (chunk.task, chunk.groups) == ("values", (1, 3))
    assert units.waiting == {"ref": 100, "values": 30}
    other = units.take(last_task="", tokens=0)
    assert other is not None
    assert (other.task, other.groups) == ("ref", (1,))
