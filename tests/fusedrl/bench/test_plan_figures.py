"""Figures by hand."""

import pytest

from fusedrl.bench.plan_emulated import Acting
from fusedrl.bench.plan_figures import phase_seconds, row_of, spearman, step_seconds, summary
from fusedrl.bench.plan_scene import Scene
from tests.fusedrl.bench.scenes import plans

SECOND = 10**9


def ranks_of(*ends: float) -> list[dict[str, object]]:
    """Two ranks; generation, inference and training end at these seconds, the second rank a half earlier."""
    return [
        {
            "events": [
                *([unit, "work", 0, int((end - early) * SECOND)] for unit, end in zip((0, 4, 5), ends, strict=True)),
                [-1, "step", int(early * SECOND), int((ends[-1] - early) * SECOND)],
            ]
        }
        for early in (0.0, 0.5)
    ]


def test_a_step_ends_with_its_last_rank_and_phases_add_up_to_it() -> None:
    found = ranks_of(1.0, 3.0, 4.5)
    assert step_seconds(found) == 4.5
    assert phase_seconds(Scene.of(plans()[0]), found) == [1.0, 2.0, 1.5]


def test_a_row_holds_the_median_in_the_cost_model_s_seconds() -> None:
    plan = plans()[0]
    repeats = [ranks_of(1.0, 2.0, each) for each in (4.0, 6.0, 20.0)]
    row = row_of(plan, Scene.of(plan), repeats, Acting(scale=2.0))
    assert (row["measured_s"], row["least_s"], row["most_s"]) == (3.0, 2.0, 10.0)
    assert row["error"] == plan.seconds / 3.0 - 1
    assert row["measured_training_s"] == 2.0
    assert sum(row[f"predicted_{name}_s"] for name in ("generation", "inference", "training")) == pytest.approx(
        plan.seconds
    )
    assert row["way_ref"] == "ranks 0-1 tp=1 pp=2 dp=1 size=160"


def test_rank_correlation_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 900]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)  # equal values share a rank
    assert spearman([1, 1], [1, 2]) == 0


def test_errors_are_shares_of_what_was_measured() -> None:
    rows = [{"predicted_s": p, "measured_s": m, "error": p / m - 1} for p, m in ((1.0, 1.25), (3.0, 2.0))]
    found = summary(rows)
    assert found["mean_error"] == pytest.approx((0.2 + 0.5) / 2)
    assert found["worst_error"] == pytest.approx(0.5)
    assert found["rank_correlation"] == pytest.approx(1)
