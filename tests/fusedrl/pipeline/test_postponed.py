import gc
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from fusedrl.pipeline.postponed import postpone, postponing

START = torch.linspace(0.2, 0.7, 64)


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
    """With a gradient already there; of 64 float32 sums some show in which sequence they are made."""
    made = torch.nn.Parameter(torch.linspace(0.3, 0.9, 64))
    made.grad = START.clone()
    return made


def source() -> Tensor:
    return torch.linspace(0.1, 0.2, 64).requires_grad_()


def thrice(weight: Tensor, x: Tensor) -> Tensor:
    """Three uses of one weight."""
    return Product.apply(Product.apply(Product.apply(x, weight) * 3, weight).sin(), weight).sum()


@pytest.mark.parametrize("hooks", [False, True])
def test_uses_of_one_parameter_add_up_as_in_a_whole_backward_bit_for_bit(hooks: bool) -> None:
    """Under hooks on saved tensors, too: a layer then sees other objects for its parameter."""
    weights = [parameter(), parameter()]
    inputs = [source() for _ in weights]
    thrice(weights[0], inputs[0]).backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t) if hooks else nullcontext():
        output = thrice(weights[1], inputs[1])
    with postponing() as put_off:
        output.backward()
    assert torch.equal(weights[1].grad, START)  # type: ignore[arg-type]
    assert len(put_off) == 3
    put_off.run()
    assert torch.equal(weights[0].grad, weights[1].grad)  # type: ignore[arg-type]
    assert torch.equal(inputs[0].grad, inputs[1].grad)  # type: ignore[arg-type]


def test_a_parameter_takes_one_sum_so_that_hooks_run_once() -> None:
    weight, seen = parameter(), []
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    with postponing() as put_off:
        thrice(weight, source()).backward()
    before = len(seen)
    put_off.run()
    assert len(seen) == before + 1


def test_outside_nothing_is_put_off() -> None:
    assert not postpone(lambda: None)
    weight = parameter()
    thrice(weight, source()).backward()
    assert not torch.equal(weight.grad, START)  # type: ignore[arg-type]


def test_work_without_a_parameter_runs_later_too() -> None:
    seen: list[int] = []
    with postponing() as put_off:
        assert postpone(lambda: seen.append(1))
    assert seen == []
    put_off.run()
    assert seen == [1]


def test_what_the_work_read_is_free_afterwards_and_the_work_gone() -> None:
    weight, x = parameter(), source()
    with postponing() as put_off:
        (middle := Product.apply(x, weight).sum()).backward()
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
