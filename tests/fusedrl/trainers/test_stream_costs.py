"""Costs are what was measured; what was not is guessed; every rank comes to the same."""

from dataclasses import replace

import pytest

from fusedrl.rollout.step_times import StepTimes, Sums
from fusedrl.stream.costs import Link
from fusedrl.trainers.stream_costs import GUESS, costs_of, decode_curve
from tests.distributed.pool import RankPool


def test_nothing_measured_gives_the_guess() -> None:
    found = costs_of(StepTimes(), max_rows=8, link=None, tasks=("ref",))
    assert (found.decode, found.prefill_ms, found.infer_ms) == (GUESS.decode, GUESS.prefill_ms, {})
    assert (found.max_rows, found.link) == (8, None)


def test_costs_are_means_by_size() -> None:
    times, link = StepTimes(), Link(bytes_per_token=4, bytes_per_ms=8.0)
    for rows, ms in ((1, 2.0), (4, 3.0), (6, 5.0)):
        times.decoded(rows, ms=ms)
    times.prefilled(10, ms=5.0)
    times.inferred("ref", 100, ms=20.0)
    found = costs_of(times, max_rows=8, link=link, tasks=("ref", "critic"))
    assert found.decode.points == ((1, 2.0), (5, 4.0))
    assert (found.prefill_ms, found.infer_ms, found.link) == (0.5, {"ref": 0.2}, link)
    assert (found.score_ms, found.score_workers) == (0.0, 1)
    for ms in (3.0, 5.0):
        times.scored(ms=ms)
    scored = costs_of(times, max_rows=8, link=link, tasks=("ref", "critic"), score_workers=7)
    assert scored == replace(found, score_ms=4.0, score_workers=7)


@pytest.mark.parametrize(
    ("classes", "points"),
    [
        ([Sums(2, 6, 4.0)], ((3, 2.0), (4, 2.0))),
        ([Sums(1, 8, 1.0), Sums(1, 1, 3.0)], ((1, 3.0), (8, 3.0))),
        ([Sums(1, 1, 0.0)], ((1, 1e-6), (2, 1e-6))),
    ],
)
def test_a_larger_batch_never_takes_less(classes: list[Sums], points: tuple[tuple[int, float], ...]) -> None:
    assert decode_curve(classes).points == points


def test_links_and_choices_are_the_same_on_all_ranks_and_follow_the_configuration(ranks: RankPool) -> None:
    first, other = ranks.run("tests.fusedrl.trainers.migration_jobs:choices", world=2)
    assert first == other
    assert first["link"][1] > 0
    assert first["given"] == (5, 1)
    assert first["off"] == first["unseen"] == first["kept"] == (0, 1)
    assert first["chosen"][0] > 0
    assert first["chosen"][1] == 1
    assert first["scored"] == [[6.0, 3], [6.0, 3], [pytest.approx((12 + 6 / 4) / (1 + 1 / 4)), 3]]  # older calls fade
