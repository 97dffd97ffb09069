"""Weight gradients put off: what a backward leaves for later when an order splits it into B and W.

    with postponing() as put_off:      B: input gradients; layers that can leave their weight gradients here
        backward(...)
    put_off.run()                      W: the weight gradients

A layer's backward asks `postpone(gradient, parameter=weight)`. Inside a split backward the answer is True and the layer
gives no gradient for that parameter; elsewhere it is False and the layer computes it as ever. Layers that never ask
(norms, biases, the value head) have their gradients in B.

W adds what autograd would have added: the uses of one parameter (a tied table is looked up and multiplied by) are
summed in the sequence of the backward before they meet the gradient, so the sums are the same bits; the sum reaches the
parameter through autograd, so hooks run as they do in a whole backward.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Gradient = Callable[[], Tensor | None]
"""Computes a weight gradient; None where it adds the gradient to the parameter by itself."""


class Postponed:
    """The weight-gradient work that one backward put off. It holds what that work reads, and nothing else."""

    def __init__(self) -> None:
        self._work: list[tuple[Tensor | None, Gradient]] = []

    def __len__(self) -> int:
        return len(self._work)

    def add(self, gradient: Gradient, *, parameter: Tensor | None = None) -> None:
        self._work.append((parameter, gradient))

    def run(self) -> None:
        """Compute everything, parameter by parameter, and forget it."""
        uses: dict[int, tuple[Tensor | None, list[Gradient]]] = {}
        for parameter, gradient in self._work:
            # by address: where hooks look at saved tensors, autograd gives a new object for a parameter each time
            address = 0 if parameter is None else parameter.data_ptr()
            uses.setdefault(address, (parameter, []))[1].append(gradient)
        self._work.clear()
        with torch.no_grad():
            for parameter, gradients in uses.values():
                _accumulate(parameter, gradients)


def _accumulate(parameter: Tensor | None, gradients: list[Gradient]) -> None:
    total: Tensor | None = None
    while gradients:
        gradient = gradients.pop(0)()  # what it reads is free after this
        total = gradient if total is None else total if gradient is None else total + gradient
    if total is not None:
        assert parameter is not None, "a gradient came without its parameter"
        torch.autograd.backward(parameter, total)


# One for the process: autograd runs a GPU's backward in a thread of its own, where a thread's local would be unset.
_open: Postponed | None = None


@contextmanager
def postponing() -> Iterator[Postponed]:
    """Weight gradients of backwards inside are put off."""
    global _open
    assert _open is None, "a split backward inside another one"
    _open = Postponed()
    try:
        yield _open
    finally:
        _open = None


def postpone(gradient: Gradient, *, parameter: Tensor | None = None) -> bool:
    """Asked by a layer's backward: whether the gradient was put off."""
    if _open is None:
        return False
    _open.add(gradient, parameter=parameter)
    return True
