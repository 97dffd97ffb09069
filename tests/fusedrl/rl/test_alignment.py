import pytest
import torch

from fusedrl.rl.alignment import label_mask, mask_through_stop, outputs_for_response, response_mask
from tests.fusedrl.rl.reference import rows


def test_value_of_a_response_token_is_the_output_before_it() -> None:
    outputs_BS = torch.arange(5.0)[None]
    assert outputs_for_response(outputs_BS, torch.tensor([2]), width=3).tolist() == [[1, 2, 3]]


def test_response_mask_is_the_end_of_the_attention_mask_not_one_before() -> None:
    attention_BS = torch.tensor([[1, 1, 1, 1, 1, 0]])
    assert torch.equal(response_mask(torch.tensor([3]), width=4), attention_BS[:, -4:].bool())


def test_each_row_has_its_own_prompt_length() -> None:
    outputs_BS = torch.arange(12.0).view(2, 6).requires_grad_()
    found = outputs_for_response(outputs_BS, torch.tensor([1, 4]), width=3)
    assert found.tolist() == [[0, 1, 2], [9, 10, 11]]
    found.sum().backward()
    assert outputs_BS.grad is not None
    assert outputs_BS.grad.tolist() == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]


def test_a_width_beyond_the_row_repeats_its_end() -> None:
    assert outputs_for_response(torch.arange(3.0)[None], torch.tensor([2]), width=4).tolist() == [[1, 2, 2, 2]]


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="a prompt has no token"):
        outputs_for_response(torch.zeros(2, 3), torch.tensor([1, 0]), width=2)


def test_response_mask_counts_by_length_row_by_row() -> None:
    assert response_mask(torch.tensor([3, 1]), width=3).int().tolist() == [[1, 1, 1], [1, 0, 0]]
    assert response_mask(torch.tensor([1, 0]), width=2).int().tolist() == [[1, 0], [0, 0]]
    with pytest.raises(ValueError, match=r"5 tokens, more than data.max_response_length 4"):
        response_mask(torch.tensor([2, 5]), width=4)


def test_mask_ends_with_the_first_stop_token_included_though_padding_equals_it() -> None:
    tokens_BT = torch.tensor([[1, 2, 2, 42, 3, 5, 0, 0, 0]])
    assert mask_through_stop(tokens_BT, stop_token_ids=frozenset({0})).int().tolist() == [[1] * 7 + [0, 0]]


def test_any_of_several_stop_tokens_ends_and_none_keeps_all() -> None:
    tokens_BT = torch.tensor([[5, 7, 9, 9], [9, 5, 5, 5], [1, 2, 3, 4]])
    found = mask_through_stop(tokens_BT, stop_token_ids=frozenset({7, 9}))
    assert found.int().tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    assert mask_through_stop(tokens_BT, stop_token_ids=frozenset()).all()


def test_label_mask_moves_to_the_predicting_positions() -> None:
    assert label_mask(rows([0, 0, 1, 1])).tolist() == [[0, 1, 1]]
