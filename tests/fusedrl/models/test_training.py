import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fusedrl.models.hf_folder import HfFolder
from fusedrl.models.training import OptimizerSettings
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"
LAYOUTS = [((1, 1, 2), False), ((2, 1, 1), False), ((1, 2, 1), True), ((2, 2, 1), False), ((1, 2, 2), True)]


def train(ranks: RankPool, folder: Path, layout: tuple[int, int, int], **options: Any) -> dict[str, Any]:
    """History on rank 0; the trained weights are in `folder`."""
    options = {"arch": {}, "settings": {"lr": 0.01}, "folder": str(folder), "layout": layout} | options
    world = layout[0] * layout[1] * layout[2]
    histories = ranks.run(f"{JOBS}:losses_and_norms", world=world, **options)
    assert all(history == histories[0] for history in histories), "ranks disagree"
    return histories[0]


def assert_same_training(one: dict[str, Any], other: dict[str, Any], folders: tuple[Path, Path]) -> None:
    for name in ("loss", "grad_norm", "lr"):
        assert other[name] == pytest.approx(one[name], rel=1e-5), name
    ours, theirs = HfFolder(folders[0]), HfFolder(folders[1])
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=1e-4, msg=name)


@pytest.mark.parametrize(
    ("arch", "head"),
    [
        ({}, "lm"),
        ({"tied": True}, "lm"),
        ({"family": "qwen3"}, "lm"),
        ({"family": "qwen2", "qkv_bias": True}, "lm"),
        ({"tied": True}, "value"),
    ],
)
def test_losses_norms_and_weights_do_not_depend_on_the_layout(
    ranks: RankPool, tmp_path: Path, arch: dict[str, Any], head: str
) -> None:
    serial = train(ranks, tmp_path / "serial", (1, 1, 1), arch=arch, head=head)
    assert serial["loss"][-1] < serial["loss"][0]
    for index, (layout, reverse) in enumerate(LAYOUTS):
        folder = tmp_path / str(index)
        history = train(ranks, folder, layout, arch=arch, head=head, reverse=reverse)
        assert_same_training(serial, history, (tmp_path / "serial", folder))


def test_loss_and_gradient_do_not_depend_on_the_microbatches(ranks: RankPool, tmp_path: Path) -> None:
    whole = train(ranks, tmp_path / "1", (1, 1, 1), microbatches=1)
    for count in (2, 4):
        parts = train(ranks, tmp_path / str(count), (1, 1, 1), microbatches=count)
        assert_same_training(whole, parts, (tmp_path / "1", tmp_path / str(count)))


@pytest.mark.parametrize("layout", [(1, 1, 2), (2, 1, 2), (1, 2, 2)])
def test_distributed_optimizer_equals_the_plain_one(
    ranks: RankPool, tmp_path: Path, layout: tuple[int, int, int]
) -> None:
    plain = train(ranks, tmp_path / "plain", (1, 1, 1))
    settings = {"lr": 0.01, "use_distributed_optimizer": True}
    sharded = train(ranks, tmp_path / "sharded", layout, settings=settings)
    assert_same_training(plain, sharded, (tmp_path / "plain", tmp_path / "sharded"))


@pytest.mark.parametrize("layout", [(1, 1, 1), (2, 2, 1)])
def test_first_norm_and_adam_step_equal_torchs(ranks: RankPool, tmp_path: Path, layout: tuple[int, int, int]) -> None:
    """One step against transformers, torch's autograd, clip_grad_norm_ and AdamW on the whole model."""
    from transformers import AutoModelForCausalLM

    from fusedrl.models.hf_export import write_random_hf
    from tests.distributed.model_jobs import TINY, tokens

    settings = {"lr": 0.01, "clip_grad": 0.3, "weight_decay": 0.1, "eps": 1e-3}
    history = train(ranks, tmp_path / "ours", layout, settings=settings, steps=1)

    model = AutoModelForCausalLM.from_pretrained(write_random_hf(TINY, tmp_path / "start", seed=3))
    logp = model(tokens()).logits[:, :-1].log_softmax(-1).gather(-1, tokens()[:, 1:, None])
    (-logp.mean()).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    kept = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}]
    torch.optim.AdamW(groups, lr=0.01, eps=1e-3).step()

    assert history["grad_norm"] == pytest.approx([float(norm)], rel=1e-5)
    assert norm > 0.3
    trained = HfFolder(tmp_path / "ours")
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(trained[name], parameter.data, rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize("distributed", [False, True])
def test_bfloat16_steps_below_the_weights_precision_add_up(ranks: RankPool, tmp_path: Path, distributed: bool) -> None:
    """Adam works on float32 copies. Below 1, where norms start, bfloat16's neighbour is 1/256 away."""
    settings = {"lr": 5e-4, "weight_decay": 0.0, "use_distributed_optimizer": distributed}
    options: dict[str, Any] = {"settings": settings, "dtype": "bfloat16"}
    train(ranks, tmp_path / "1", (1, 2, 2), steps=1, **options)
    history = train(ranks, tmp_path / "8", (1, 2, 2), steps=8, **options)
    assert history["success"] == [True] * 8
    after_1, after_8 = (HfFolder(tmp_path / steps)["model.norm.weight"] for steps in ("1", "8"))
    assert after_1.dtype == torch.bfloat16
    assert (after_1 == 1).all()
    assert (after_8 != 1).any()


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize(("layout", "reverse"), [((1, 2, 2), False), ((2, 2, 1), True), ((1, 4, 1), True)])
def test_tied_tables_of_first_and_last_stage_stay_bit_equal(
    ranks: RankPool, layout: tuple[int, int, int], reverse: bool, distributed: bool
) -> None:
    found = ranks.run(
        f"{JOBS}:tied_copies_after_training", world=4, layout=layout, reverse=reverse, distributed=distributed
    )
    ends = [of_rank for of_rank in found if of_rank]
    assert len(ends) == (2 if layout[1] == 4 else 4)
    assert all(all(of_rank) and len(of_rank) == 3 for of_rank in ends)


SHARDED = {"use_distributed_optimizer": True, "overlap_grad_reduce": True, "overlap_param_gather": True}


@pytest.mark.parametrize(
    ("value", "settings", "dtype"),
    [(math.nan, {}, "float32"), (math.inf, SHARDED, "float32"), (math.nan, SHARDED, "bfloat16")],
)
def test_a_step_with_a_non_finite_gradient_is_skipped_by_all_and_changes_no_bit(
    ranks: RankPool, value: float, settings: dict[str, Any], dtype: str
) -> None:
    skipped = [{"success": False, "same": True, "in_a_row": count} for count in (1, 2)]
    taken = {"success": True, "same": False, "in_a_row": 0}
    expected = {"seen": [taken, *skipped, taken], "skipped": 2, "lr_steps": 2}
    found = ranks.run(f"{JOBS}:step_with_bad_gradient", world=2, value=value, settings=settings, dtype=dtype)
    assert found == [expected] * 2


def test_learning_rate_warms_up_then_decays(ranks: RankPool, tmp_path: Path) -> None:
    settings = {"lr": 0.4, "lr_warmup_steps": 2, "lr_decay_style": "linear", "total_steps": 6}
    history = train(ranks, tmp_path, (1, 1, 1), settings=settings, steps=6)
    assert history["lr"] == pytest.approx([0.2, 0.3, 0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr_decay_style": "step"}, r"optim\.lr_decay_style='step'"),
        ({"lr": 1.0, "min_lr": 2.0}, r"optim\.min_lr=2\.0"),
        ({"lr_warmup_steps": 5, "total_steps": 5}, r"optim\.lr_warmup_steps=5"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OptimizerSettings(**settings)
