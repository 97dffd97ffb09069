import pytest
import torch
from torch import Tensor

from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.stage import PipelineModel, backward, forward

MICROBATCH = MicroBatch(torch.arange(6).view(2, 3))


def square_loss(output: Tensor, microbatch: MicroBatch) -> tuple[Tensor, dict[str, Tensor | float]]:
    loss = output.square().sum()
    return loss, {"loss": loss, "rows": float(microbatch.rows)}


def test_two_stages_equal_one_graph() -> None:
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    source = torch.randn(2, 4)
    square_loss(last(torch.tanh(first(source))), MICROBATCH)[0].backward()
    expected = [p.grad.clone() for p in [*first.parameters(), *last.parameters()]]  # type: ignore[union-attr]
    for module in (first, last):
        module.zero_grad()

    sent, done_first, _ = forward(lambda m, r: torch.tanh(first(source)), MICROBATCH, None, loss=None)
    _, done_last, metrics = forward(lambda m, r: last(r), MICROBATCH, sent, loss=square_loss)
    gradient = backward(done_last, None)
    assert backward(done_first, gradient) is None
    got = [p.grad for p in [*first.parameters(), *last.parameters()]]
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))  # type: ignore[arg-type]
    assert metrics["rows"] == 2.0
    assert not metrics["loss"].requires_grad  # type: ignore[union-attr]


def test_received_tensor_is_a_fresh_leaf_each_time() -> None:
    buffer = torch.ones(2, 4)
    layer = torch.nn.Linear(4, 4)
    gradients = []
    for _ in range(2):
        _, done, _ = forward(lambda m, r: layer(r), MICROBATCH, buffer, loss=square_loss)
        gradients.append(backward(done, None))
    assert torch.equal(gradients[0], gradients[1])  # type: ignore[arg-type]
    assert buffer.grad is None


def test_output_is_freed_once_its_message_is_gone() -> None:
    import weakref

    class Node(torch.autograd.Function):  # as Megatron's viewless tensors: a Python node that saves nothing
        @staticmethod
        def forward(context: object, value: Tensor) -> Tensor:
            return value.clone()

        @staticmethod
        def backward(context: object, gradient: Tensor) -> Tensor:
            return gradient

    layer = torch.nn.Linear(4, 4)
    seen: list[weakref.ref] = []

    def stage(microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        output = Node.apply(layer(torch.ones(2, 4)))
        seen.append(weakref.ref(output.untyped_storage()))
        return output

    sent, done, _ = forward(stage, MICROBATCH, None, loss=None)
    del sent
    assert seen[0]() is None
    backward(done, torch.ones(2, 4))
    assert layer.weight.grad is not None


def test_view_outputs_have_right_gradients() -> None:
    layer = torch.nn.Linear(4, 4)
    _, done, _ = forward(lambda m, r: layer(torch.ones(2, 4)).t()[1:], MICROBATCH, None, loss=None)
    backward(done, torch.ones(3, 2))
    assert layer.bias.grad.tolist() == [0.0, 2.0, 2.0, 2.0]  # type: ignore[union-attr]


def test_loss_that_is_no_scalar_is_refused() -> None:
    with pytest.raises(ValueError, match="scalar"):
        forward(lambda m, r: torch.ones(2, requires_grad=True) * 2, MICROBATCH, None, loss=lambda o, m: (o, {}))


def test_model_knows_its_ranks_stages_and_speaker() -> None:
    model = PipelineModel(
        name="critic",
        placement=(1, 0),
        columns=((0, 4), (1, 5), (2, 6), (3, 7)),
        tp=2,
        stages={},
        message_shape=lambda microbatch: microbatch.shape,
    )
    assert model.ranks(6) == (2, 6)
    assert model.held_by(6) == (0,)
    assert [rank for rank in range(8) if model.speaks(rank)] == [0, 2]
    with pytest.raises(ValueError, match="rank 9 is in none of its columns"):
        model.ranks(9)
