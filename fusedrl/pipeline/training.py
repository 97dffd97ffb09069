"""One training step of several models in one pass: zero, run, finalize. `optimizer.step` stays with the caller.

    result = train_pass(executor, program, {"actor": Training(actor, Work(...)), "critic": Training(critic, Work(...))})
    info = actor.step(); ...

No gradient is reduced while ops run: reductions of one model would meet messages of the other. Each model's gradients
are finalized once, after its own last backward, in the models' sequence, the same on all ranks.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from fusedrl.pipeline.executor import Executor, PassResult, Work
from fusedrl.pipeline.program import Program


class Trainable(Protocol):
    """What a model brings to a training pass (fusedrl.models.training.TrainableModel does)."""

    def zero_grad(self) -> None: ...

    def no_sync(self) -> AbstractContextManager[Any]: ...

    def finalize_grads(self) -> None: ...


def train_pass(
    executor: Executor,
    program: Program,
    work: Mapping[str, Work],
    *,
    models: Mapping[str, Trainable],
    measure_memory: bool = False,
) -> PassResult:
    """Gradients of all `models` for this pass's work, reduced and ready for their optimizers."""
    if set(models) != {name for name, each in work.items() if each.loss is not None}:
        raise ValueError(f"models to train: {sorted(models)}; work with a loss must be given for exactly these")
    for model in models.values():
        model.zero_grad()
    with ExitStack() as region:
        for model in models.values():
            region.enter_context(model.no_sync())
        result = executor.run(program, work, measure_memory=measure_memory)
    for model in models.values():
        model.finalize_grads()
    return result
