"""What a model's optimizer keeps of each parameter on this rank, the same view of all of Megatron's optimizers.

    fp32                       the whole local parameter; the parameter itself is the value that Adam works on
    bf16                       the whole local parameter; an fp32 main value, of which the parameter is the rounding
    distributed optimizer      a range of the flattened local parameter: this replica's part

So three fp32 numbers an entry (value, first and second moment) hold all of a parameter's state, whatever the layout.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fusedrl.models.parameter_gather import settle
from fusedrl.models.training import TrainableModel

VALUE = "param"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class Kept:
    """This rank's share of one parameter: entries `start` to `stop` of it, flattened, in the model's local numbering.

    main: the fp32 values that the optimizer updates, flat. moments: Adam's, flat; empty before the first step.
    """

    parameter: nn.Parameter
    start: int
    stop: int
    main: Tensor
    moments: Mapping[str, Tensor]

    def tensors(self) -> dict[str, Tensor]:
        """By kind; views of what is in use."""
        return {VALUE: self.main, **self.moments}


def kept(model: TrainableModel) -> dict[str, Kept]:
    """By the parameter's local name. A parameter of which this rank's optimizer has no entry is absent."""
    settle(model.module)
    names = {parameter: name for name, parameter in model.module.named_parameters()}
    found = {names[p]: _kept(p, main, start=start, inner=o.optimizer) for o, p, main, start in _shares(model)}
    return {name: found[name] for name in names.values() if name in found}


def adam_steps(model: TrainableModel) -> int | None:
    """Steps that Adam has taken; None where this rank's optimizer has no entry or has not begun."""
    counts = {
        int(step)
        for optimizer in _optimizers(model)
        for group in optimizer.optimizer.param_groups
        for step in _steps(optimizer.optimizer, group)
    }
    assert len(counts) <= 1, f"Adam has taken {sorted(counts)} steps on different parameters of {model.name}"
    return counts.pop() if counts else None


@torch.no_grad()
def restore(
    model: TrainableModel,
    *,
    values: Mapping[str, Tensor],
    moments: Mapping[str, Mapping[str, Tensor]],
    steps: int | None,
) -> None:
    """Put back what `kept` gave. values: of each parameter, whole and flat; moments: of this rank's entries, flat.

    steps: of Adam; None with no moments: it has not begun.
    """
    settle(model.module)
    for name, parameter in model.module.named_parameters():
        parameter.data.view(-1).copy_(values[name])
    for name, share in kept(model).items():
        share.main.copy_(values[name][share.start : share.stop])
    if steps is None:
        return
    names = {parameter: name for name, parameter in model.module.named_parameters()}
    for optimizer, parameter, main, _ in _shares(model):
        state = optimizer.optimizer.state[main]
        for kind, flat in moments[names[parameter]].items():
            state[kind] = flat.to(main.device, torch.float32).view_as(main).clone()
        if _counts_by_parameter(optimizer.optimizer):
            state["step"] = torch.tensor(float(steps))
    for optimizer in _optimizers(model):
        if not _counts_by_parameter(optimizer.optimizer):
            for group in optimizer.optimizer.param_groups:
                group["step"] = steps


def _kept(parameter: nn.Parameter, main: Tensor, *, start: int, inner: Any) -> Kept:
    state = inner.state.get(main, {})
    moments = {kind: state[kind].detach().view(-1) for kind in MOMENTS if kind in state}
    return Kept(parameter, start, start + main.numel(), main.detach().view(-1), moments)


def _optimizers(model: TrainableModel) -> list[Any]:
    chained = getattr(model.optimizer, "chained_optimizers", [model.optimizer])
    return [each for each in chained if not getattr(each, "is_stub_optimizer", False)]


def _shares(model: TrainableModel) -> Iterable[tuple[Any, nn.Parameter, Tensor, int]]:
    """(optimizer, parameter, the tensor that it updates, that one's first entry in the flattened parameter)."""
    for optimizer in _optimizers(model):
        for parameter in model.module.parameters():
            if not hasattr(optimizer, "model_param_gbuf_map"):
                yield optimizer, parameter, getattr(parameter, "main_param", parameter), 0
            elif parameter in optimizer.model_param_gbuf_map:
                group, place = optimizer.model_param_group_index_map[parameter]
                main = optimizer.optimizer.param_groups[group]["params"][place]
                yield optimizer, parameter, main, optimizer._get_model_param_range_map(parameter)["param"].start


def _counts_by_parameter(inner: Any) -> bool:
    """torch's Adam counts steps in each parameter's state, those of Transformer Engine and apex in each group."""
    return type(inner).__module__.startswith("torch.")


def _steps(inner: Any, group: Mapping[str, Any]) -> list[Any]:
    if not _counts_by_parameter(inner):
        return [group["step"]] if group.get("step") and group["params"] else []
    return [inner.state[main]["step"] for main in group["params"] if "step" in inner.state.get(main, {})]
