import multiprocessing
from dataclasses import replace
from typing import Any

import pytest

from fusedrl.bench import bubble_ranks
from fusedrl.bench.bubble_cell import Cell, cell_problem
from fusedrl.bench.bubble_ranks import measure, on_ranks
from fusedrl.bench.cases import solve_case
from schedules.builders import greedy
from schedules.replay import replay
from tests.distributed.pool import RankPool

SMALL = Cell(depth=2, microbatches=2, method="greedy", unit_ms=0.1, repeats=2)


def start_server(ranks: RankPool) -> None:
    """The process that ranks are forked from is one for all tests; the pool's has imported what it needs."""
    ranks.run("tests.fusedrl.bench.bubble_jobs:nothing", world=1)


def test_planned_is_the_order_s_replay_and_emulated_takes_no_less(ranks: RankPool) -> None:
    start_server(ranks)
    found = measure(SMALL)
    planned = replay(cell_problem(SMALL), greedy(cell_problem(SMALL)))
    assert found["planned_makespan_ms"] == pytest.approx(planned.makespan * 0.1)
    assert found["planned_bubble"] == pytest.approx(planned.bubble_ratio, abs=1e-6)
    assert found["measured_makespan_ms"] >= found["planned_makespan_ms"]
    assert 0 <= found["least_bubble"] <= found["planned_bubble"] + 1e-6
    assert found["peak_memory"] == planned.max_peak_memory / 2  # serial holds two of the actor at the most


def test_a_method_that_does_not_suit_starts_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubble_ranks, "on_ranks", None)
    odd = Cell(depth=2, microbatches=3, method="interleaved")
    assert "multiples of p" in measure(odd)["refused"]


def test_a_rank_that_fails_is_told_and_none_is_left(ranks: RankPool) -> None:
    start_server(ranks)
    case: Any = solve_case(cell_problem(SMALL), "greedy", limits=SMALL.limits)
    bad = replace(SMALL)
    object.__setattr__(bad, "repeats", 1)  # refused by each rank
    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match=r"rank \d of 2: ArgumentError: repeats: 1 is too small"):
        on_ranks(case, bad, limit=60)
    assert set(multiprocessing.active_children()) <= before
