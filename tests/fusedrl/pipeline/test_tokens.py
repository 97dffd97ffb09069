"""Rows that ranks share, and rows without padding: they compute what whole rows on one rank do, every order the same
bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fusedrl.models.options import Recompute, StageOptions
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.tokens import PackedRows, WholeRows, next_tokens, planned_shapes
from tests.distributed.pool import RankPool
from tests.distributed.trainer_jobs import folder_of
from tests.fusedrl.pipeline.test_law import UNEQUAL, assert_bit_equal, assert_close, check_moved, merged

LOGITS = "tests.distributed.context_jobs:whole_logits"
RUN = "tests.fusedrl.pipeline.law_jobs:run_law"
SHAPES = [(2, 8), (3, 5), (1, 1), (2, 3)]  # a row of 1 token, shared by 2 ranks, leaves one of them padding alone
SHARED_TOKENS, PACKED = StageOptions(sequence_parallel=True), StageOptions(packed=True)
RAGGED = MicroBatch(torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]]), lengths=(4, 2, 1))


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


def test_packed_rows_lie_end_to_end_and_come_back() -> None:
    form = PackedRows(multiple=4)
    assert form.shape(RAGGED) == (1, 8)
    packed = form.enter(RAGGED.tokens_BT, RAGGED)
    assert packed.tolist() == [[1, 2, 3, 4, 5, 6, 7, 0]]
    assert form.enter(RAGGED.position_ids_BT(), RAGGED).tolist() == [[0, 1, 2, 3, 0, 1, 0, 0]]
    assert torch.equal(form.spread(packed, RAGGED), RAGGED.tokens_BT)
    assert (form.ends(RAGGED).tolist(), form.longest(RAGGED)) == ([0, 4, 6, 7, 8], 4)
    assert PackedRows().ends(RAGGED).tolist() == [0, 4, 6, 7]


def test_packed_results_take_their_gradient_from_their_own_places() -> None:
    results = torch.zeros(1, 8, requires_grad=True)
    PackedRows(multiple=4).spread(results, RAGGED).backward(torch.arange(12.0).view(3, 4))
    assert results.grad is not None
    assert results.grad.tolist() == [[0, 1, 2, 3, 4, 5, 8, 0]]


def test_plans_count_the_tokens_of_packed_rows_and_what_they_attend_to() -> None:
    ((rows, length),) = planned_shapes(PackedRows(), [RAGGED])
    assert rows * length == pytest.approx(4 + 2 + 1)
    assert rows * length * length == pytest.approx(4 * 4 + 2 * 2 + 1)
    assert planned_shapes(WholeRows(), [RAGGED]) == ((3, 4),)
    assert planned_shapes(WholeRows(8), [RAGGED]) == ((3, 8),)  # as its stages pad it


@pytest.mark.parametrize(
    ("layout", "family"),
    [((1, 1, 1, 2), "qwen2"), ((2, 1, 1, 2), "qwen3"), ((1, 1, 1, 3), "qwen2")],
    ids=["cp2", "tp2_cp2", "cp3"],
)
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
        overlap=distributed_optimizer,
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


def test_rows_that_ranks_share_in_one_model_may_be_whole_in_another(ranks: RankPool) -> None:
    """Actor cp=2, critic dp=2 on the same ranks."""
    options: dict[str, Any] = {"passes": UNEQUAL, "replicas": 2, "critic": (1, 2, 2)}
    serial, fused = (run(ranks, (1, 2, 1, 2), method=method, **options) for method in ("serial", "fused"))
    assert_bit_equal(serial, fused)
    whole = run(ranks, (1, 1, 1), method="plain", passes=UNEQUAL, replicas=2)
    assert_close(merged(whole), merged(fused))


@pytest.mark.parametrize("recompute", [Recompute("selective"), Recompute("full")], ids=["selective", "full"])
def test_recomputed_activations_of_shared_rows_are_the_same_bits(ranks: RankPool, recompute: Recompute) -> None:
    kept, again = (
        run(ranks, (1, 1, 1, 2), method="serial", passes=UNEQUAL, options=StageOptions(recompute=each))
        for each in (None, recompute)
    )
    assert_bit_equal(kept, again)


@pytest.mark.parametrize(
    ("layout", "options", "family"),
    [((1, 1, 1), PACKED, "qwen2"), ((2, 1, 1), StageOptions(packed=True, sequence_parallel=True), "qwen3")],
    ids=["one", "tp2-sequence"],
)
def test_logits_of_packed_rows_are_those_of_padded_rows(
    ranks: RankPool, layout: tuple[int, ...], options: StageOptions, family: str
) -> None:
    whole = ranks.run(LOGITS, world=1, layout=(1, 1, 1), shapes=SHAPES, options=StageOptions(), family=family)[0]
    for found in ranks.run(LOGITS, world=layout[0], layout=layout, shapes=SHAPES, options=options, family=family):
        for one, other in zip(found, whole, strict=True):
            for row, (mine, theirs) in enumerate(zip(one, other, strict=True)):
                real = max(1, len(mine) - row)
                assert np.abs(np.array(mine[:real]) - np.array(theirs[:real])).max() < 1e-5


@pytest.mark.parametrize(
    ("layout", "options", "shape"),
    [
        ((1, 2, 1), PACKED, "v"),
        ((2, 1, 1), StageOptions(packed=True, sequence_parallel=True, recompute=Recompute("full")), "line"),
    ],
    ids=["pp2-v", "tp2-sequence-full"],
)
def test_packed_rows_train_as_padded_rows_do(
    ranks: RankPool, plain: dict[str, Any], layout: tuple[int, ...], options: StageOptions, shape: str
) -> None:
    packed = run(ranks, layout, method="fused", passes=UNEQUAL, options=options, shape=shape)
    check_moved(packed)
    assert_close(plain, merged(packed))


def test_any_order_of_packed_rows_equals_serial_bit_for_bit(ranks: RankPool) -> None:
    serial, *others = (
        run(ranks, (1, 2, 1), method=method, passes=UNEQUAL, options=PACKED) for method in ("serial", "fused", "mixed7")
    )
    check_moved(serial)
    for other in others:
        assert_bit_equal(serial, other)
    again = StageOptions(packed=True, recompute=Recompute("selective"))
    assert_bit_equal(serial, run(ranks, (1, 2, 1), method="fused", passes=UNEQUAL, options=again))


@pytest.mark.parametrize(
    ("world", "keys"),
    [(4, {"context_parallel_size": 2}), (2, {"use_remove_padding": True})],
    ids=["shared-rows", "packed-rows"],
)
def test_supervised_fine_tuning_is_that_of_whole_rows_on_one_rank(
    ranks: RankPool, tmp_path: Path, world: int, keys: dict[str, Any]
) -> None:
    job, folder = "tests.distributed.context_jobs:supervised", folder_of(tmp_path)
    alone = ranks.run(job, world=1, folder=folder, pp=1, keys={})[0]
    for found in ranks.run(job, world=world, folder=folder, pp=2, keys=keys):
        assert found == pytest.approx(alone, rel=1e-5)
