import torch

from fusedrl.data.sft import Example, collate
from fusedrl.rl.alignment import label_mask


def test_labels_are_answer_and_end_by_length_whatever_the_ids() -> None:
    # the pad id is 2, as is the end token, which is learnt
    batch = collate([Example((5, 6, 7, 2), start=2), Example((5, 2), start=1)], pad_id=2)
    assert batch.tokens_BS.tolist() == [[5, 6, 7, 2], [5, 2, 2, 2]]
    assert batch.label_mask_BS.tolist() == [[False, False, True, True], [False, True, False, False]]
    assert batch.lengths_B.tolist() == [4, 2]


def test_a_mask_on_tokens_moves_to_the_places_that_predict_them() -> None:
    assert label_mask(torch.tensor([[0, 0, 1, 1]])).tolist() == [[0, 1, 1]]
