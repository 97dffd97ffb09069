"""What the ranks do in the tests of fusedrl.plan."""

import torch
import torch.distributed as dist

from fusedrl.models.build import build_model
from fusedrl.models.optimizer_state import kept
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.plan.sizes import read_model


def state_bytes(*, layout: tuple[int, int, int], dtype: str, distributed: bool) -> tuple[int, dict[str, int]]:
    """(pipeline stage of this rank, bytes that a trained model of the sheet "tiny" holds there after a step)."""
    model = read_model("tiny")
    groups = build_groups(Layout(*layout))
    module = build_model(model.arch, groups, dtype=getattr(torch, dtype), seed=1)
    settings = OptimizerSettings(lr=1e-3, use_distributed_optimizer=distributed)
    trained = TrainableModel(module, groups=groups, settings=settings)
    trained.zero_grad()
    trained.step()
    parameters = list(module.parameters())
    own = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    optimizer = 0
    for each in kept(trained).values():
        tensors = each.tensors().values()
        optimizer += sum(t.nbytes for t in tensors if t.untyped_storage().data_ptr() not in own)
    return dist.get_rank(groups.pp), {
        "weights": sum(each.nbytes for each in parameters),
        "gradients": sum(each.main_grad.nbytes for each in parameters),
        "optimizer": optimizer,
    }
