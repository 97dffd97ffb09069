import numpy as np
import pytest

from fusedrl.pipeline.results import largest_shape, sum_metrics
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.pipeline_jobs"


def test_report_is_the_same_on_all_ranks_and_sums_over_replicas(ranks: RankPool) -> None:
    reports = ranks.run(f"{JOBS}:report_toy", world=4, counts={"actor": 4, "critic": 3})
    first = reports[0]
    assert all(report["metrics"] == first["metrics"] for report in reports)
    assert all(report["bubbles"] == first["bubbles"] for report in reports)
    last_stages = [reports[2]["local"], reports[3]["local"]]
    assert last_stages[0] != last_stages[1]  # replicas hold other data
    for key in ("loss", "tokens"):
        assert first["metrics"]["actor"][key] == last_stages[0][key] + last_stages[1][key]
    assert first["ops"] == first["expected_ops"]
    assert all(0 <= bubble < 1 for bubble in first["bubbles"])


def test_collected_outputs_reach_every_rank_of_their_replica_only(ranks: RankPool) -> None:
    reports = ranks.run(f"{JOBS}:report_toy", world=4, counts={"actor": 2, "critic": 3})
    for a, b in ((0, 2), (1, 3)):
        for one, other in zip(reports[a]["spread"], reports[b]["spread"], strict=True):
            assert one.keys() == other.keys() == {"values", "lengths"}
            assert all(np.array_equal(one[name], other[name]) for name in one)
    for report in reports:
        assert [each["values"].shape for each in report["spread"]] == report["shapes"]
        assert [each["values"].dtype for each in report["spread"]] == [np.float32] * 3
    assert reports[0]["shapes"] != reports[1]["shapes"]


def test_plans_reckon_with_the_largest_replica(ranks: RankPool) -> None:
    agreed = ranks.run(f"{JOBS}:agree_toy", world=2, uneven=False)
    assert agreed == [{"actor": ((2, 4), (1, 5)), "critic": ((4, 4),)}] * 2


def test_no_replica_has_more_tokens_or_pairs_of_them_than_plans_reckon_with() -> None:
    assert largest_shape([(2, 8), (4, 8)]) == (4, 8)
    few, many = (1.0, 20.0), (3.0, 10.0)
    rows, length = largest_shape([few, many])
    assert rows * length == pytest.approx(30)  # the many short ones', not the 60 of as many long ones
    assert rows * length**2 == pytest.approx(400)  # the long one's


def test_replicas_with_other_counts_are_refused_on_all_ranks(ranks: RankPool) -> None:
    for message in ranks.run(f"{JOBS}:agree_toy", world=2, uneven=True):
        assert message.startswith("critic: ranks hold [1, 2] micro-batches")


def test_metrics_of_one_replica_may_be_absent() -> None:
    assert sum_metrics([{}, {"actor": {"loss": 1.0}}, {"actor": {"loss": 2.5}}], names=["actor", "critic"]) == {
        "actor": {"loss": 3.5},
        "critic": {},
    }
    with pytest.raises(KeyError):
        sum_metrics([{"stranger": {"loss": 1.0}}], names=["actor"])
