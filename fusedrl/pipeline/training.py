"""One training step of several models in one pass: zero, run, finalize. `optimizer.step` stays with the caller.

    result = train_pass(executor, program, {"actor": Training(actor, Work(...)), "critic": Training(critic, Work(...))})
    info = actor.step(); ...

Hooks of backwards reduce nothing: they cannot know a model's last backward. Each model may begin its own reduction
(`start_reduce`) once it has nothing left to do on this rank, at the same place of the list on all ranks that join in
it; the others' ops go on meanwhile. All gradients are finalized once after the pass, in the models' sequence, the same
on all ranks.
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

    def start_reduce(self) -> None: ...

    def finalize_grads(self) -> None: ...


def train_pass(
    executor: Executor,
    program: Program,
    work: Mapping[str, Work],
    *,
    models: Mapping[str, Trainable],
    measure_memory: bool = False,
) -> PassResult:
    """Gradients of all `models` for this pass's work, reduced and ready for their optimizers. models: those of the
    work with a loss that this rank holds a part of."""
    held = {name for name in work if executor.holds(name)}
    if set(models) != {name for name in held if work[name].loss is not None}:
        raise ValueError(f"models to train: {sorted(models)}; work with a loss must be given for exactly these")
    for model in models.values():
        model.zero_grad()
    with ExitStack() as region:
        for model in models.values():
            region.enter_context(model.no_sync())
        finished = {name: model.start_reduce for name, model in models.items()}
        result = executor.run(program, work, measure_memory=measure_memory, finished=finished)
    for model in models.values():
        model.finalize_grads()
    return result
