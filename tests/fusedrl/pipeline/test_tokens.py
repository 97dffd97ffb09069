"""Rows that ranks share: every layout computes what one rank does, and every order the same bits."""

from typing import Any

import numpy as np
import pytest
import torch

from fusedrl.models.options import Recompute, StageOptions
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.tokens import WholeRows, next_tokens
from tests.distributed.pool import RankPool
from tests.fusedrl.pipeline.test_law import UNEQUAL, assert_bit_equal, assert_close, check_moved, merged

LOGITS = "tests.distributed.context_jobs:whole_logits"
RUN = "tests.fusedrl.pipeline.law_jobs:run_law"
SHAPES = [(2, 8), (3, 5), (1, 1), (2, 3)]  # a row of 1 token, shared by 2 ranks, leaves one of them padding alone
SHARED_TOKENS = StageOptions(sequence_parallel=True)


def run(ranks: RankPool, layout: tuple[int, ...], **kwargs: Any) -> list[dict[str, Any]]:
    return ranks.run(RUN, world=int(np.prod(layout)), layout=layout, **kwargs)


@pytest.fixture(scope="module")
def plain(ranks: RankPool) -> dict[str, Any]:
    """Two passes on one rank, by a plain loop."""
    return merged(run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL))


def test_next_tokens_are_those_of_the_row() -> None:
    batch = MicroBatch(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert next_tokens(WholeRows(multiple=4), batch).tolist() == [[2, 3, 0], [5, 6, 0]]


def test_padding_for_the_stages_sake_is_cut_again() -> None:
    batch, form = MicroBatch(torch.ones(2, 5, dtype=torch.long)), WholeRows(multiple=4)
    assert form.shape(batch) == (2, 8)
    assert form.enter(batch.tokens_BT, batch).shape == (2, 8)
    assert form.leave(torch.ones(2, 8, 3), batch).shape == (2, 5, 3)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize("layout", [(1, 1, 1, 2), (2, 1, 1, 2), (1, 1, 1, 3)], ids=["cp2", "tp2_cp2", "cp3"])
def test_logits_of_shared_rows_are_those_of_whole_rows(ranks: RankPool, layout: tuple[int, ...], family: str) -> None:
    options: dict[str, Any] = {"shapes": SHAPES, "options": StageOptions(), "family": family}
    whole = ranks.run(LOGITS, world=1, layout=(1, 1, 1), **options)[0]
    for found in ranks.run(LOGITS, world=int(np.prod(layout)), layout=layout, **options):
        for one, other in zip(found, whole, strict=True):
            assert np.abs(np.array(one) - np.array(other)).max() < 1e-5


@pytest.mark.parametrize(
    ("layout", "options", "distributed_optimizer"),
    [
        ((1, 1, 1, 2), StageOptions(), False),
        ((1, 2, 1, 2), StageOptions(recompute=Recompute("full")), True),
        ((2, 1, 1, 2), SHARED_TOKENS, False),
    ],
    ids=["cp2", "cp2_pp2-full-distributed", "tp2_cp2-sequence"],
)
def test_shared_rows_train_as_one_rank_does(
    ranks: RankPool, plain: dict[str, Any], layout: tuple[int, ...], options: StageOptions, distributed_optimizer: bool
) -> None:
    """Loss, gradients, their norm and the parameters after a step: nothing is counted once for each rank of a row."""
    shared = run(
        ranks,
        layout,
        method="fused",
        passes=UNEQUAL,
        options=options,
        distributed_optimizer=distributed_optimizer,
    )
    check_moved(shared)
    found = merged(shared)
    assert_close({key: value for key, value in plain.items() if key in found}, found)
    assert {key.split("/")[2] for key in found} >= {"whole", "norm", "metric"}


def test_replicas_of_shared_rows_train_as_one_rank_does(ranks: RankPool) -> None:
    options: dict[str, Any] = {"passes": UNEQUAL, "replicas": 2}
    whole = run(ranks, (1, 1, 1), method="plain", **options)
    assert_close(merged(whole), merged(run(ranks, (1, 1, 2, 2), method="fused", **options)))


@pytest.mark.parametrize(
    ("shape", "method", "tied"), [("line", "fused", False), ("line", "mixed7", True), ("v", "fused_split", True)]
)
def test_any_order_of_shared_rows_equals_serial_bit_for_bit(
    ranks: RankPool, shape: str, method: str, tied: bool
) -> None:
    options: dict[str, Any] = {"passes": UNEQUAL, "shape": shape, "tied": tied}
    serial, other = (run(ranks, (1, 2, 1, 2), method=each, **options) for each in ("serial", method))
    check_moved(serial)
    assert_bit_equal(serial, other)


@pytest.mark.parametrize("recompute", [Recompute("selective"), Recompute("full")], ids=["selective", "full"])
def test_recomputed_activations_of_shared_rows_are_the_same_bits(ranks: RankPool, recompute: Recompute) -> None:
    kept, again = (
        run(ranks, (1, 1, 1, 2), method="serial", passes=UNEQUAL, options=StageOptions(recompute=each))
        for each in (None, recompute)
    )
    assert_bit_equal(kept, again)
