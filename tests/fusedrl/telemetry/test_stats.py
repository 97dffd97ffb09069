"""A mean over parts is the mean of the whole, however the parts are cut."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.telemetry.stats import Stat, means, summary
from tests.distributed.pool import RankPool
from tests.fusedrl.telemetry.jobs import SHARES

numbers = st.lists(st.integers(-1000, 1000).map(float), max_size=12)


@given(numbers, st.integers(0, 12), st.integers(0, 12))
def test_stats_of_parts_add_up_to_the_stat_of_the_whole(values: list[float], a: int, b: int) -> None:
    first, second = sorted((a, b))
    parts = [Stat.of(torch.tensor(part)) for part in (values[:first], values[first:second], values[second:])]
    assert parts[0] + (parts[1] + parts[2]) == Stat.of(torch.tensor(values))


def test_masked_entries_do_not_count_whatever_they_hold() -> None:
    values = torch.tensor([[1.0, float("nan")], [3.0, 1e30]])
    assert Stat.of(values, torch.tensor([[1, 0], [1, 0]])) == Stat(4.0, 2.0, 1.0, 3.0)


def test_sums_are_exact_beyond_single_precision() -> None:
    assert Stat.of(torch.ones(3) * 2**24 + torch.tensor([0.0, 2.0, 0.0])).total == 3 * 2**24 + 2


def test_summary_has_verl_names_and_nan_for_nothing() -> None:
    assert summary("critic/score", Stat(4.0, 2.0, 1.0, 3.0)) == {
        "critic/score/mean": 2.0,
        "critic/score/max": 3.0,
        "critic/score/min": 1.0,
    }
    assert all(math.isnan(value) for value in summary("x", Stat()).values())
    assert means({"a": Stat(3.0, 2.0, 1.0, 2.0)}) == {"a": 1.5}


def test_all_reduce_equals_the_stat_of_all_shares(ranks: RankPool) -> None:
    found = ranks.run("tests.fusedrl.telemetry.jobs:reduce_shares", world=3)
    whole = Stat.of(torch.tensor([value for share in SHARES for value in share]))
    assert found == [{"x": whole, "nobody": Stat()}] * 3


def test_names_that_differ_between_ranks_are_an_error_and_not_a_hang(ranks: RankPool) -> None:
    found = ranks.run("tests.fusedrl.telemetry.jobs:reduce_other_names", world=3, limit=30.0)
    assert all(text.startswith("metrics differ between ranks") for text in found)
