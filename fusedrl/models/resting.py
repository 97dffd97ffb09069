"""Memory of models on a device that waits in CPU memory while it is not needed.

    parameters      of any model                                     come back as they were
    a copy's        parameters that others' are handed over to      come back as zeros, before the next hand-over
    gradients       the sums of Megatron's DDP                       come back as zeros: the next pass begins with none
    optimizer       Adam's moments; main values where these are other tensors than the parameters

A storage is emptied where it is (its size becomes 0) and filled again. So all that looks into it, parameters, buckets,
the optimizer's parts of them, plans of hand-overs, stays what it is. In between nobody may read it.

On CUDA the host's copies are pinned, made once and used again. This way has not run on a GPU; CPU ranks run the rest.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from fusedrl.models.optimizer_state import kept
from fusedrl.models.parameter_gather import settle
from fusedrl.models.training import TrainableModel

Storages = list[torch.UntypedStorage]


class Resting:
    """The storages that `find` gives. keeps: whether what is in them comes back; else zeros do."""

    def __init__(self, find: Callable[[], Storages], *, keeps: bool = True) -> None:
        self._find, self._keeps = find, keeps
        self._away: list[tuple[torch.UntypedStorage, int]] = []
        self._copies: dict[int, Tensor] = {}  # by the place of a storage in the list: used again in the next step

    @torch.no_grad()
    def offload(self) -> int:
        """Give their memory back; how many bytes."""
        assert not self._away
        self._away = [(storage, storage.nbytes()) for storage in self._find()]
        if self._keeps:
            for place, (storage, size) in enumerate(self._away):
                self._copy(place, size, device=storage.device).copy_(_bytes(storage), non_blocking=True)
            _wait(self._away)
        for storage, _ in self._away:
            storage.resize_(0)
        return sum(size for _, size in self._away)

    @torch.no_grad()
    def onload(self) -> None:
        """As before `offload`; nothing where it was not called."""
        for place, (storage, size) in enumerate(self._away):
            storage.resize_(size)
            if self._keeps:
                _bytes(storage).copy_(self._copies[place], non_blocking=True)
            else:
                _bytes(storage).zero_()
        _wait(self._away)
        self._away = []

    def _copy(self, place: int, size: int, *, device: torch.device) -> Tensor:
        if place not in self._copies or self._copies[place].numel() != size:
            self._copies[place] = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        return self._copies[place]


def parameters_of(module: nn.Module) -> Resting:
    """The parameters, those that are still on their way from other replicas too."""

    def find() -> Storages:
        settle(module)
        return _distinct(module.parameters())

    return Resting(find)


def emptied(module: nn.Module) -> Resting:
    """The parameters of a copy that takes its weights anew before each use; they come back as zeros."""
    return Resting(lambda: _distinct(module.parameters()), keeps=False)


def gradients_of(model: TrainableModel) -> Resting:
    """Between two updates; what is in them is lost."""
    buffers = [buffer for ddp in model.ddp for buffer in (*ddp.buffers, *ddp.expert_parallel_buffers)]
    return Resting(lambda: _distinct(buffer.grad_data for buffer in buffers), keeps=False)


def optimizer_of(model: TrainableModel) -> Resting:
    """Nothing before the first update, if the parameters are the main values."""

    def find() -> Storages:
        parameters = {storage.data_ptr() for storage in _distinct(model.module.parameters())}
        tensors = (tensor for share in kept(model).values() for tensor in share.tensors().values())
        return [storage for storage in _distinct(tensors) if storage.data_ptr() not in parameters]

    return Resting(find)


def _distinct(tensors: Iterable[Tensor]) -> Storages:
    """Each storage once, in order; empty ones aside."""
    found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return [storage for storage in found.values() if storage.nbytes()]


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _wait(storages: Iterable[tuple[torch.UntypedStorage, int]]) -> None:
    """Until copies between a GPU and the host are done; on CPUs they are."""
    for device in {storage.device for storage, _ in storages if storage.device.type == "cuda"}:
        torch.cuda.current_stream(device).synchronize()
