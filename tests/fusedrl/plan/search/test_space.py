"""What a choice comes to: phases in a row, units of shared ranks in a row, memory rank by rank."""

import numpy as np
import pytest

from fusedrl.plan.search.space import Move, Space, Unit, exhaustive


def unit(name: str, phase: int, *ways: tuple[float, int, int], held: float = 0.0, burst: float = 0.0) -> Unit:
    """ways: (seconds, first rank, rank after the last)."""
    columns = [np.array(column) for column in zip(*ways, strict=True)]
    count = len(ways)
    return Unit(name, phase, *columns, np.full((count, 3), held), np.full(count, burst))


def test_units_share_ranks_one_after_the_other_and_others_run_side_by_side() -> None:
    apart = Space(4, 1.0, (unit("a", 1, (3.0, 0, 2)), unit("b", 1, (5.0, 2, 4))))
    shared = Space(4, 1.0, (unit("a", 1, (3.0, 0, 3)), unit("b", 1, (5.0, 2, 4))))
    assert apart.outcome((0, 0)).seconds == 5.0
    assert shared.outcome((0, 0)).seconds == 8.0


def test_the_best_order_of_a_phase_is_taken() -> None:
    """a meets b, b meets c: a and c side by side, then b or before, 7 s; a, b, c in this order would take 4 + 3 + 4."""
    space = Space(4, 1.0, (unit("a", 1, (4.0, 0, 2)), unit("b", 1, (3.0, 1, 3)), unit("c", 1, (4.0, 2, 4))))
    starts = space.starts((0, 0, 0), 1)
    assert space.span((0, 0, 0), 1) == 7.0
    assert starts[0] == starts[2]


def test_phases_follow_each_other_and_moves_are_the_units_time() -> None:
    space = Space(
        2,
        10.0,
        (unit("gen", 0, (2.0, 0, 2)), unit("inf", 1, (1.0, 0, 2)), unit("train", 2, (4.0, 0, 2))),
        (Move(0, 2, np.array([[0.5]]), np.array([[3.0]])),),
    )
    assert space.outcome((0, 0, 0)).seconds == 7.5


def test_memory_is_what_is_held_and_the_largest_need_of_the_phase() -> None:
    gen = unit("gen", 0, (1.0, 0, 2), held=1.0, burst=5.0)
    ref = unit("ref", 1, (1.0, 0, 4), held=2.0, burst=7.0)
    reward = unit("reward", 1, (1.0, 1, 2), held=4.0, burst=6.0)
    train = unit("train", 2, (1.0, 0, 4), held=8.0, burst=1.0)
    space = Space(4, 30.0, (gen, ref, reward, train), (Move(0, 3, np.zeros((1, 1)), np.array([[9.0]])),))
    memory = space.memory((0, 0, 0, 0))
    assert memory[0, 0] == 1 + 2 + 8 + 5 + 9  # with the moved weights
    assert memory[1, 1] == 1 + 2 + 4 + 8 + max(7, 6)
    assert memory[1, 2] == 1 + 2 + 4 + 8 + 1
    assert space.outcome((0, 0, 0, 0)).excess == 1 + 2 + 4 + 8 + 5 + 9 - 30


def test_exhaustive_takes_the_fastest_that_fits() -> None:
    fast, slow = (1.0, 0, 1), (2.0, 1, 2)
    space = Space(2, 10.0, (unit("a", 1, fast, slow, held=6.0), unit("b", 1, fast, slow, held=6.0)))
    best = exhaustive(space)
    assert best is not None
    assert best[0] == (0, 1)
    assert exhaustive(Space(2, 5.0, space.units)) is None


def test_five_units_in_a_phase_are_refused() -> None:
    with pytest.raises(AssertionError, match="5 units in inference"):
        Space(1, 1.0, tuple(unit(str(i), 1, (1.0, 0, 1)) for i in range(5)))
