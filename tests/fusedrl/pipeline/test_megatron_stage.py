"""What can be told without running Megatron-Core; test_law.py runs it."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.megatron_stage import TE_MODULE, causal_mask, columns_of, megatron_model
from fusedrl.pipeline.microbatch import MicroBatch


def fake_module(*, first: bool, last: bool, layers: Sequence[Any] = (), **config: Any) -> Any:
    """Stands for a GPTModel: what the adapter reads of it."""
    sizes = {"hidden_size": 8, "sequence_parallel": False, "pipeline_dtype": None, "params_dtype": torch.float64}
    sizes |= {"delay_wgrad_compute": False, "recompute_granularity": None, "tensor_model_parallel_size": 1}
    return SimpleNamespace(
        pre_process=first,
        post_process=last,
        packed=False,
        config=SimpleNamespace(**(sizes | config)),
        parameters=lambda: iter([torch.zeros(1)]),
        set_is_first_microbatch=lambda: None,
        modules=lambda: iter(layers),
    )


def stages(*modules: Any) -> Any:
    """A ModuleList of stand-ins."""
    made = torch.nn.ModuleList()
    made.__dict__["_modules"] = {str(number): module for number, module in enumerate(modules)}
    return made


def test_columns_hold_the_ranks_of_one_coordinate_tp_fastest() -> None:
    layout = Layout(tp=2, pp=2, dp=2)
    assert columns_of(layout) == ((0, 4), (1, 5), (2, 6), (3, 7))
    for ranks in columns_of(layout):
        assert len({layout.coords(rank)[:2] for rank in ranks}) == 1


@pytest.mark.parametrize(("rank", "reverse", "stage"), [(0, False, 0), (3, False, 1), (0, True, 1), (3, True, 0)])
def test_reversed_pipeline_starts_on_the_last_column(rank: int, reverse: bool, stage: int) -> None:
    module = fake_module(first=stage == 0, last=stage == 1)
    model = megatron_model("critic", module, layout=Layout(tp=2, pp=2), rank=rank, reverse=reverse)
    assert list(model.stages) == [stage] == list(model.held_by(rank))


def test_module_built_for_another_stage_is_refused() -> None:
    module = fake_module(first=True, last=False)
    with pytest.raises(ValueError, match="rank 0 holds stage 1 of 2, its module was built with pre_process=True"):
        megatron_model("critic", module, layout=Layout(pp=2), rank=0, reverse=True)


def test_several_stages_are_taken_in_increasing_order_and_all_told_of_a_pass() -> None:
    seen: list[int] = []
    modules = [fake_module(first=True, last=False), fake_module(first=False, last=True)]
    for number, module in enumerate(modules):
        module.set_is_first_microbatch = partial(seen.append, number)
    model = megatron_model("actor", stages(*modules), layout=Layout(pp=2), rank=0, placement="v")
    assert list(model.stages) == [0, 3] == list(model.held_by(0))
    assert model.modules == tuple(modules)
    assert model.before_pass is not None
    model.before_pass()
    assert seen == [0, 1]


def test_stages_that_were_not_built_are_missed() -> None:
    module = fake_module(first=True, last=False)
    with pytest.raises(ValueError, match=r"actor: rank 0 holds stages \[0, 3\] of 4, 1 were built"):
        megatron_model("actor", module, layout=Layout(pp=2), rank=0, placement="v")


@pytest.mark.parametrize(("sequence_parallel", "tokens", "length"), [(False, 6, 6), (True, 6, 3), (True, 5, 3)])
def test_messages_are_token_first_and_split_by_sequence_parallelism(
    sequence_parallel: bool, tokens: int, length: int
) -> None:
    module = fake_module(first=True, last=True, sequence_parallel=sequence_parallel)
    model = megatron_model("actor", module, layout=Layout(tp=2), rank=0)
    assert model.message_shape(MicroBatch(torch.zeros(4, tokens, dtype=torch.long))) == (length, 4, 8)
    assert model.dtype == torch.float64


@pytest.mark.parametrize("key", ["moe_aux_loss_coeff", "moe_z_loss_coeff", "mtp_num_layers"])
def test_models_with_auxiliary_losses_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"actor: {key}=4 cannot run in a fused pass"):
        megatron_model("actor", fake_module(first=True, last=True, **{key: 4}), layout=Layout(), rank=0)


def test_experts_want_tokens_shared_where_ranks_share_heads() -> None:
    kind = {"num_moe_experts": 4, "tensor_model_parallel_size": 2}
    with pytest.raises(
        ValueError, match="sequence_parallel=false with tensor_model_parallel_size=2: layers with expert"
    ):
        megatron_model("actor", fake_module(first=True, last=True, **kind), layout=Layout(tp=2), rank=0)
    module = fake_module(first=True, last=True, sequence_parallel=True, **kind)
    assert megatron_model("actor", module, layout=Layout(tp=2), rank=0).tp == 2
    frozen = fake_module(first=True, last=True, **kind)
    frozen.training = False
    assert megatron_model("ref", frozen, layout=Layout(tp=2), rank=0).tp == 2


def test_mask_hides_the_future_only() -> None:
    mask = causal_mask(3, torch.device("cpu"))
    assert mask is not None
    assert mask[0, 0].tolist() == [[False, True, True], [False, False, True], [False, False, False]]


def te_layer(name: str, *, seen: list[str]) -> Any:
    """Stands for a layer of Transformer Engine."""
    layer = type("TELinear", (), {"__module__": TE_MODULE, "backward_dw": lambda self: seen.append(name)})
    return layer()


@pytest.mark.parametrize("delay", [False, True])
def test_transformer_engines_layers_split_only_where_they_were_built_to_delay(delay: bool) -> None:
    seen: list[str] = []
    layers = [te_layer("qkv", seen=seen), torch.nn.Linear(1, 1), te_layer("proj", seen=seen)]
    module = fake_module(first=True, last=True, layers=layers, delay_wgrad_compute=delay)
    model = megatron_model("actor", module, layout=Layout(), rank=0)
    assert model.splits == delay
    for compute in model.delayed.values():
        compute()
    assert seen == (["proj", "qkv"] if delay else [])


@pytest.mark.parametrize(("recompute", "splits"), [(None, True), ("selective", True), ("full", False)])
def test_stages_that_compute_whole_layers_again_do_not_split(recompute: str | None, splits: bool) -> None:
    module = fake_module(first=True, last=True, recompute_granularity=recompute)
    assert megatron_model("actor", module, layout=Layout(), rank=0).splits == splits


def test_megatrons_own_layers_split() -> None:
    model = megatron_model("actor", fake_module(first=True, last=True), layout=Layout(), rank=0)
    assert model.splits
    assert not model.delayed
