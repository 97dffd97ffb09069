"""The choice is the best of its candidates, never worse than moving nothing, and follows the lengths that were seen."""

import numpy as np
import pytest

from fusedrl.stream.control import Policy
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.simulator import Batch, Simulator
from fusedrl.stream.tail_policy import NONE, TailPolicy, candidates, choose, mean_ms

COSTS = StreamCosts(
    decode=DecodeCurve.with_knee(base_ms=8, row_ms=0.02, knee=64, beyond_ms=0.1),
    prefill_ms=0.02,
    infer_ms={"ref": 2.0, "values": 2.0},
    link=Link(bytes_per_token=1, bytes_per_ms=1e4),
    max_rows=64,
)
SIMULATOR = Simulator(COSTS)


def batch(*, long: int, seed: int = 0, samples: int = 64) -> Batch:
    """A few long ones among short ones, four instances."""
    lengths = np.full(samples, 10)
    lengths[np.random.default_rng(seed).permutation(samples)[:long]] = 300
    return Batch.even(lengths, instances=4, prompt_tokens=10)


def test_candidates_cover_thresholds_and_destinations() -> None:
    found = candidates(100, instances=4)
    assert {policy.m for policy in found} == {1, 2, 3}
    assert min(policy.r_t for policy in found) == 1
    assert max(policy.r_t for policy in found) == 75
    assert len(set(found)) == len(found)
    assert not candidates(100, instances=1)


def test_the_choice_is_the_best_of_an_exhaustive_search() -> None:
    batches = [batch(long=6, seed=seed) for seed in range(3)]
    policies = candidates(64, instances=4, thresholds=8)
    found = choose(SIMULATOR, batches, policies=policies, first=3, kept=len(policies))
    best = min(mean_ms(SIMULATOR, batches, policy=policy) for policy in (NONE, *policies))
    assert found.simulated_ms == best < found.without_ms
    quick = choose(SIMULATOR, batches, policies=policies)
    assert quick.simulated_ms <= 1.01 * best


@pytest.mark.parametrize("long", [0, 64])
def test_equal_lengths_move_nothing(long: int) -> None:
    policy = TailPolicy(SIMULATOR)
    policy.observe(batch(long=long).length_N.tolist())
    found = policy.choose(batch(long=long))
    assert found.policy == NONE
    assert found.simulated_ms == found.without_ms


def test_moving_is_refused_where_it_costs_more_than_it_frees() -> None:
    dear = StreamCosts(decode=COSTS.decode, prefill_ms=50.0, infer_ms=COSTS.infer_ms, max_rows=64)
    batches = [batch(long=6)]
    found = choose(Simulator(dear), batches, policies=candidates(64, instances=4, thresholds=8))
    assert found.policy == NONE


def test_nothing_moves_before_a_batch_was_seen() -> None:
    policy = TailPolicy(SIMULATOR)
    policy.observe([300] * 63)
    assert policy.choose(batch(long=6)).policy == NONE
    policy.observe([10] * 700)
    assert policy.choose(batch(long=6)).policy != NONE


def test_old_lengths_leave_the_window() -> None:
    policy = TailPolicy(SIMULATOR, window=128)
    policy.observe(batch(long=6).length_N.tolist())
    assert policy.choose(batch(long=6)).policy.r_t > 0
    policy.observe([10] * 128)
    assert policy.choose(batch(long=6)).policy == Policy(r_t=0)
