"""What a split backward holds on to between B and W, on a Megatron-Core stage."""

import gc
import weakref
from typing import Any

import torch
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from torch import Tensor, nn

from fusedrl.models.build import build_model
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.costs import CountedCost
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import Postponed, postponing
from fusedrl.pipeline.stage import backward, forward
from tests.fusedrl.pipeline.law_jobs import ARCH

ROWS, LENGTH = 3, 8


class Watch:
    """Storages of all modules' outputs and of the linear layers' inputs, held weakly."""

    def __init__(self, module: nn.Module) -> None:
        self.outputs: dict[int, weakref.ref] = {}
        self.inputs: set[int] = set()
        for name, each in module.named_modules():
            if name:
                each.register_forward_hook(self._see)

    def _see(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        for value in output if isinstance(output, tuple) else (output,):
            if isinstance(value, Tensor) and value.requires_grad:
                storage = value.untyped_storage()
                self.outputs[id(storage)] = weakref.ref(storage)
        if isinstance(module, ColumnParallelLinear | RowParallelLinear):
            self.inputs.add(id(inputs[0].untyped_storage()))

    def alive(self) -> set[int]:
        gc.collect()
        return {key for key, storage in self.outputs.items() if storage() is not None}


def bytes_read(put_off: Postponed) -> int:
    """Of all tensors that the work put off reads, parameters aside."""
    closures = [gradient.__closure__ for _, gradient in put_off._work]
    read = [cell.cell_contents for closure in closures for cell in closure]
    tensors = [each for each in read if isinstance(each, Tensor) and not isinstance(each, nn.Parameter)]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())


def held_between_b_and_w() -> dict[str, Any]:
    """Alive after F, B and W: counts, whether only inputs of linear layers are alive after B, and bytes put off."""
    module = build_model(ARCH, build_groups(Layout()), seed=1)
    model = megatron_model("actor", module, layout=Layout(), rank=0)
    tokens = torch.randint(ARCH.vocab_size, (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))
    watch = Watch(module)
    _, done, _ = forward(
        model.stages[0], MicroBatch(tokens), None, loss=lambda output, microbatch: (output.square().sum(), {})
    )
    after_f = watch.alive()
    with postponing() as put_off:
        backward(done, None)
    weights = len(put_off)
    del done
    after_b, held = watch.alive(), bytes_read(put_off)
    put_off.run()
    cost = CountedCost(ARCH, [ARCH.num_layers])
    return {
        "after F": len(after_f),
        "after B": len(after_b),
        "inputs alone": after_b <= watch.inputs,
        "after W": len(watch.alive()),
        "weights": weights,
        "held MiB": held / 2**20,
        "planned MiB": cost.activation(0, rows=ROWS, length=LENGTH),
    }
