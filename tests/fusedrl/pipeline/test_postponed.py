import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from fusedrl.pipeline.postponed import postpone, postponing


class Product(torch.autograd.Function):
    """x * weight; puts the weight's gradient off where it may."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def,override]
        x, weight = ctx.saved_tensors
        later = postpone(lambda: gradient * x, parameter=weight)
        return gradient * weight, None if later else gradient * x


def parameter() -> torch.nn.Parameter:
    """With a gradient already there: 1/3 shows in which sequence float32 sums are made."""
    made = torch.nn.Parameter(torch.tensor([0.7]))
    made.grad = torch.tensor([1 / 3])
    return made


def thrice(weight: Tensor, x: Tensor) -> Tensor:
    """Three uses of one weight; the gradients of the uses differ by orders of magnitude."""
    return Product.apply(Product.apply(Product.apply(x, weight) * 1e3, weight).sin(), weight)


@pytest.mark.parametrize("hooks", [False, True])
def test_uses_of_one_parameter_add_up_as_in_a_whole_backward_bit_for_bit(hooks: bool) -> None:
    """Under hooks on saved tensors, too: a layer then sees other objects for its parameter."""
    weights = [parameter(), parameter()]
    inputs = [torch.tensor([0.1], requires_grad=True) for _ in weights]
    thrice(weights[0], inputs[0]).backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t) if hooks else nullcontext():
        output = thrice(weights[1], inputs[1])
    with postponing() as put_off:
        output.backward()
    assert weights[1].grad == torch.tensor([1 / 3])
    assert len(put_off) == 3
    put_off.run()
    assert torch.equal(weights[0].grad, weights[1].grad)  # type: ignore[arg-type]
    assert torch.equal(inputs[0].grad, inputs[1].grad)  # type: ignore[arg-type]


def test_a_parameter_takes_one_sum_so_that_hooks_run_once() -> None:
    weight, seen = parameter(), []
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    with postponing() as put_off:
        thrice(weight, torch.tensor([0.1], requires_grad=True)).backward()
    before = len(seen)
    put_off.run()
    assert len(seen) == before + 1


def test_outside_nothing_is_put_off() -> None:
    assert not postpone(lambda: None)
    weight = parameter()
    thrice(weight, torch.tensor([0.1], requires_grad=True)).backward()
    assert weight.grad != torch.tensor([1 / 3])


def test_work_without_a_parameter_runs_later_too() -> None:
    seen: list[int] = []
    with postponing() as put_off:
        assert postpone(lambda: seen.append(1))
    assert seen == []
    put_off.run()
    assert seen == [1]


def test_what_the_work_read_is_free_afterwards_and_the_work_gone() -> None:
    weight, x = parameter(), torch.tensor([0.1], requires_grad=True)
    with postponing() as put_off:
        (middle := Product.apply(x, weight)).backward()
    read = weakref.ref(x)
    del middle, x
    gc.collect()
    assert read() is not None
    put_off.run()
    assert read() is None
    assert len(put_off) == 0


def test_a_failed_backward_leaves_no_store_open() -> None:
    with pytest.raises(ZeroDivisionError), postponing():
        raise ZeroDivisionError
    assert not postpone(lambda: None)


def test_split_backwards_do_not_nest() -> None:
    with postponing(), pytest.raises(AssertionError, match="inside another"), postponing():
        pass
