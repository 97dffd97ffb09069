import statistics

import pytest
import torch

from fusedrl.rl.groups import compare


def test_comparison_equals_python_statistics_of_each_group() -> None:
    generator = torch.Generator().manual_seed(7)
    scores_B = torch.randn(40, generator=generator, dtype=torch.float64)
    groups_B = torch.randint(0, 6, (40,), generator=generator)
    live_B = torch.rand(40, generator=generator) < 0.8
    found = compare(scores_B, groups_B, live_B)
    for i in live_B.nonzero().flatten().tolist():
        members = [j for j in range(40) if live_B[j] and groups_B[j] == groups_B[i]]
        mine, others = [float(scores_B[j]) for j in members], [float(scores_B[j]) for j in members if j != i]
        assert found.size_B[i] == len(mine)
        assert found.deviation_B[i].item() == pytest.approx(mine[members.index(i)] - statistics.fmean(mine), abs=1e-14)
        assert found.std_unbiased_B[i].item() == pytest.approx(statistics.stdev(mine))
        assert found.std_biased_B[i].item() == pytest.approx(statistics.pstdev(mine))
        assert found.others_mean_B[i].item() == pytest.approx(statistics.fmean(others))
        assert found.others_std_B[i].item() == pytest.approx(statistics.stdev(others))
    assert not found.size_B[~live_B].any()


def test_one_group_id_a_score() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) groups for \(3,\) scores"):
        compare(torch.zeros(3), torch.zeros(2), torch.ones(3, dtype=torch.bool))


def test_no_samples_give_no_comparison() -> None:
    assert compare(
        torch.zeros(0), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.bool)
    ).size_B.shape == (0,)
