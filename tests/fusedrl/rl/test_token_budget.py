"""Packing is held against every partition of a few samples; losses of what it packs against the whole batch's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.rl import losses
from fusedrl.rl.token_budget import pack
from tests.fusedrl.rl.test_losses import policy_batch

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=40)


def padded(lengths: list[int], rows: list[int]) -> int:
    return len(rows) * max(lengths[i] for i in rows)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """Every partition of the items into non-empty sets."""
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        yield from ([*rest[:at], [items[0], *each], *rest[at + 1 :]] for at, each in enumerate(rest))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(6, 16))
def test_no_partition_has_fewer_micro_batches_nor_as_many_with_a_smaller_largest(
    lengths: list[int], tokens: int
) -> None:
    (found,) = pack(lengths, tokens=tokens)
    within = [
        sizes
        for each in partitions(list(range(len(lengths))))
        if max(sizes := [padded(lengths, rows) for rows in each]) <= tokens
    ]
    least = min(map(len, within))
    assert len(found) == least
    assert max(padded(lengths, rows) for rows in found) == min(max(sizes) for sizes in within if len(sizes) == least)


@settings(max_examples=100, deadline=None)
@given(LENGTHS, st.integers(20, 100), st.integers(1, 4), st.integers(1, 3))
def test_replicas_share_every_sample_in_equally_many_micro_batches_within_the_budget(
    lengths: list[int], tokens: int, replicas: int, multiple: int
) -> None:
    samples = lengths * replicas * multiple
    found = pack(samples, tokens=tokens, replicas=replicas, multiple=multiple)
    (alone,) = pack(samples, tokens=tokens)
    (count,) = {len(share) for share in found}
    assert len(found) == replicas
    assert count % multiple == 0
    assert count - multiple < -(-len(alone) // replicas) <= count
    assert sorted(i for share in found for rows in share for i in rows) == list(range(len(samples)))
    assert all(0 < padded(samples, rows) <= tokens and rows == sorted(rows) for share in found for rows in share)
    assert found == pack(samples, tokens=tokens, replicas=replicas, multiple=multiple)


@settings(max_examples=50, deadline=None)
@given(LENGTHS, st.integers(20, 100), st.integers(2, 4))
def test_replicas_have_nearly_equal_work(lengths: list[int], tokens: int, replicas: int) -> None:
    samples = lengths * replicas
    found = [[padded(samples, rows) for rows in share] for share in pack(samples, tokens=tokens, replicas=replicas)]
    sizes, totals = [size for share in found for size in share], [sum(share) for share in found]
    assert max(totals) - min(totals) <= max(sizes) - min(sizes)


def test_the_large_ones_are_in_the_middle() -> None:
    (found,) = pack([1, 2, 3, 4, 5, 6, 7], tokens=7, multiple=7)
    assert found == [[2 * m] for m in range(4)] + [[5], [3], [1]]
    assert pack([9, 5, 4, 4], tokens=15) == [[[1, 2, 3], [0]]]  # large by rows x longest


def test_a_sample_beyond_the_budget_is_one_error_that_names_the_key() -> None:
    with pytest.raises(ValueError, match=r"^a\.b=8 is below the 9 tokens of the longest sample; raise it to 9$"):
        pack([3, 9, 2], tokens=8, key="a.b")
    assert pack([3, 9, 2], tokens=9) == [[[1], [0, 2]]]


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(24, 100), st.sampled_from([2, 3, 8]))
def test_rows_count_as_a_stage_pads_them(lengths: list[int], tokens: int, pads_to: int) -> None:
    rounded = [-(-length // pads_to) * pads_to for length in lengths]
    (found,) = pack(lengths, tokens=tokens, pads_to=pads_to)
    assert max(padded(rounded, rows) for rows in found) <= tokens
    assert [found] == pack(rounded, tokens=tokens)


def test_padding_that_goes_beyond_the_budget_is_told() -> None:
    assert pack([9, 9], tokens=18) == [[[0, 1]]]
    assert pack([9, 9], tokens=18, pads_to=2) == [[[0], [1]]]
    told = r"^k=9 is below the 9 tokens of the longest sample, 10 with padding; raise it to 10$"
    with pytest.raises(ValueError, match=told):
        pack([3, 9], tokens=9, pads_to=2, key="k")


def test_fewer_samples_than_micro_batches_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 samples do not fill 4 micro-batches, whose number is a multiple of 2 on"):
        pack([1, 1, 1], tokens=8, replicas=2, multiple=2)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("tokens", [10, 25, 80])
@pytest.mark.parametrize("objective", [losses.policy_loss, losses.value_loss])
def test_loss_gradient_and_metrics_are_invariant_to_budget_and_replicas(
    objective: Callable[..., Any], tokens: int, replicas: int
) -> None:
    """In float64, each micro-batch trimmed to its longest row: sums differ in their order alone."""
    *batch, mask_BT = policy_batch(seed=17)
    lengths = [1 + max(mask_T.nonzero().flatten().tolist(), default=0) for mask_T in mask_BT]
    weight = torch.tensor(1.25, dtype=torch.float64, requires_grad=True)
    counts = {"normalizer": float(mask_BT.sum()), "tokens": float(mask_BT.sum())}

    def share(rows: list[int], width: int) -> Any:
        outputs_BT, *targets = (x_BT[rows, :width] for x_BT in (*batch, mask_BT))
        loss, metrics = objective(weight * outputs_BT, *targets, **counts)
        return torch.stack([loss.detach(), *torch.autograd.grad(loss, weight), *metrics.values()])

    packed = [rows for each in pack(lengths, tokens=tokens, replicas=replicas) for rows in each]
    added = torch.stack([share(rows, max(lengths[i] for i in rows)) for rows in packed]).sum(0)
    torch.testing.assert_close(added, share(list(range(8)), 10), rtol=1e-12, atol=1e-15)
