from dataclasses import replace
from typing import Any

import torch
from megatron.core.transformer.moe.moe_layer import MoELayer

from fusedrl.models.build import transformer_config
from fusedrl.models.experts import Experts
from fusedrl.models.implementation import Implementation, choose
from fusedrl.models.layer_spec import layer_spec
from tests.distributed.model_jobs import TINY

EXPERTS = Experts(count=4, per_token=2, ffn_hidden_size=24, normalized=False, dense_layers=(0, 3))
ARCH = replace(TINY, family="qwen3_moe", experts=EXPERTS)
CHOSEN = choose(Implementation(), experts=True)
CONFIG = transformer_config(ARCH, tp=1, pp=1, dtype=torch.float32, chosen=CHOSEN)


def test_layers_have_experts_where_the_whole_model_has_them() -> None:
    for stage, wanted in ((range(2), [False, True]), (range(2, 4), [True, False])):
        specs = layer_spec(ARCH, CHOSEN, config=CONFIG, layers=stage, packed=False).layer_specs
        assert [made_of(spec.submodules.mlp) is MoELayer for spec in specs] == wanted


def made_of(mlp: Any) -> Any:
    """What a layer's MLP is built by: Megatron-Core 0.16 has a spec of a module, 0.19 a partial call."""
    return getattr(mlp, "module", None) or mlp.func


def test_no_balancing_loss_is_computed_and_no_token_dropped() -> None:
    assert (CONFIG.moe_router_load_balancing_type, CONFIG.moe_aux_loss_coeff, CONFIG.moe_z_loss_coeff) == (
        "none",
        0,
        None,
    )
    assert CONFIG.moe_expert_capacity_factor is None
    assert CONFIG.moe_router_pre_softmax
