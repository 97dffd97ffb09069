"""Lengths from files and by assumption; shares of replicas."""

from pathlib import Path

import numpy as np
import pytest

from fusedrl.plan.workload import Workload, from_file, log_normal


def test_log_normal_lengths_have_their_mean_after_the_cut_and_their_seed() -> None:
    work = log_normal(mean=300, longest=512, samples=2048, seed=1, prompt=8)
    assert abs(work.response_N.mean() - 300) < 1
    assert work.response_N.max() == 512
    assert "assumed" in work.told
    assert (log_normal(mean=300, longest=512, samples=2048, seed=1, prompt=8).response_N == work.response_N).all()
    assert (log_normal(mean=64, longest=64, samples=8, seed=0, prompt=8).response_N == 64).all()


def test_a_file_s_lengths_are_drawn_from_and_bad_ones_are_told(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("3\n5\n7\n")
    work = from_file(path, samples=64, seed=0, prompt=4)
    assert set(work.response_N.tolist()) == {3, 5, 7}
    assert work.row == 4 + 7
    path.write_text("[2, 9]")
    assert from_file(path, samples=8, seed=0, prompt=4, longest=16).row == 20
    with pytest.raises(ValueError, match=r"data\.max_response_length=8"):
        from_file(path, samples=8, seed=0, prompt=4, longest=8)
    for text in ("many\n", "", "0\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"data\.lengths"):
            from_file(path, samples=8, seed=0, prompt=4)


def test_the_fullest_replica_holds_at_least_its_share_and_the_longest_sample() -> None:
    work = Workload(np.array([9, 1, 1, 1]), prompt=0, longest=9, mini_batches=1)
    assert work.share(1, of=4) == work.tokens == 12
    assert work.share(2, of=4) == 9
    assert work.share(4, of=4) == 9


def test_token_weighted_length_is_the_sum_of_squares_over_the_sum() -> None:
    work = Workload(np.array([1, 3]), prompt=1, longest=4, mini_batches=1)
    assert work.length == (2 * 2 + 4 * 4) / 6


def test_mini_batches_divide_the_samples() -> None:
    with pytest.raises(ValueError, match=r"data\.mini_batches=3"):
        Workload(np.ones(8, dtype=int), prompt=1, longest=1, mini_batches=3)
