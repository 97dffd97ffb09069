import torch

from fusedrl.data.sft import Example, collate
from fusedrl.rl.alignment import label_mask


def test_rows_are_padded_on_the_right_and_masks_follow_lengths() -> None:
    batch = collate([Example((5, 6, 7, 2), start=2), Example((8, 2), start=1)], pad_id=0)
    assert batch.tokens_BS.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]
    assert batch.label_mask_BS.tolist() == [[False, False, True, True], [False, True, False, False]]
    assert batch.lengths_B.tolist() == [4, 2]
    assert batch.tokens_BS.dtype == torch.int64


def test_an_end_token_that_equals_padding_is_learnt() -> None:
    """An end id that is the pad id too, also in the middle of the answer: masks come from lengths."""
    batch = collate([Example((1, 2, 0, 42, 0), start=2), Example((1, 0), start=1)], pad_id=0)
    assert batch.label_mask_BS.tolist() == [[False, False, True, True, True], [False, True, False, False, False]]


def test_shifted_labels_keep_the_first_answer_token_and_the_end() -> None:
    batch = collate([Example((1, 2, 3, 4), start=2)], pad_id=0)
    assert label_mask(batch.label_mask_BS).tolist() == [[False, True, True]]


def test_masks_move_with_their_rows() -> None:
    rows = [Example((9, 3, 3, 3), start=1), Example((9, 3), start=1)]
    batch, permuted = collate(rows, pad_id=0), collate(rows[::-1], pad_id=0)
    assert torch.equal(permuted.label_mask_BS, batch.label_mask_BS.flip(0))
    assert permuted.lengths_B.tolist() == [2, 4]
