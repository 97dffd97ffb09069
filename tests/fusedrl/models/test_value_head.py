import torch

from fusedrl.models.value_head import ValueHead


def test_fresh_head_predicts_zero_and_learns() -> None:
    head = ValueHead(8, dtype=torch.float64)
    hidden = torch.randn(5, 3, 8, dtype=torch.float64)
    values, bias = head(hidden)
    assert values.shape == (5, 3, 1)
    assert bias is None
    assert not values.any()
    values.sum().backward()
    assert torch.allclose(head.weight.grad, hidden.sum((0, 1))[None])
