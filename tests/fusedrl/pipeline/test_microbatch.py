import re

import pytest
import torch

from fusedrl.pipeline.microbatch import MicroBatch, cut_microbatches, gather_microbatches, shapes_of


def test_positions_are_indices_whatever_the_padding() -> None:
    positions = MicroBatch(torch.ones(3, 4, dtype=torch.long)).position_ids_BT()
    assert positions.tolist() == [[0, 1, 2, 3]] * 3


def test_field_with_other_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="field mask has 3 rows, tokens have 2"):
        MicroBatch(torch.ones(2, 4, dtype=torch.long), {"mask": torch.ones(3, 4)})


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (4,)])
def test_empty_micro_batch_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="non-empty"):
        MicroBatch(torch.ones(shape, dtype=torch.long))


def test_cut_trims_each_piece_to_its_longest_row_and_loses_no_row() -> None:
    tokens_BT = torch.arange(5 * 8).view(5, 8)
    lengths_B = torch.tensor([2, 3, 8, 1, 5])
    advantages_BT, scores_B = tokens_BT.float(), torch.arange(5)
    pieces = cut_microbatches(tokens_BT, lengths_B=lengths_B, rows=2, fields={"adv": advantages_BT, "score": scores_B})
    assert shapes_of(pieces) == ((2, 3), (2, 8), (1, 5))
    assert torch.equal(torch.cat([piece["score"] for piece in pieces]), scores_B)
    for piece, begin in zip(pieces, (0, 2, 4), strict=True):
        assert torch.equal(piece.tokens_BT, tokens_BT[begin : begin + piece.rows, : piece.length])
        assert torch.equal(piece["adv"], piece.tokens_BT.float())


def test_groups_of_any_rows_are_trimmed_each_to_its_own_longest() -> None:
    tokens_BT = torch.arange(5 * 8).view(5, 8)
    lengths_B = torch.tensor([2, 3, 8, 1, 5])
    groups = [torch.tensor([4, 0, 3]), torch.tensor([2]), torch.tensor([1])]
    fields = {"length": lengths_B, "adv": tokens_BT.float()}
    pieces = gather_microbatches(tokens_BT, lengths_B=lengths_B, groups=groups, fields=fields)
    assert shapes_of(pieces) == ((3, 5), (1, 8), (1, 3))
    for piece, rows in zip(pieces, groups, strict=True):
        assert torch.equal(piece.tokens_BT, tokens_BT[rows, : piece.length])
        assert torch.equal(piece["adv"], piece.tokens_BT.float())
        assert torch.equal(piece["length"], lengths_B[rows])
        assert piece.lengths == tuple(lengths_B[rows].tolist())


def test_cut_rounds_lengths_up_within_the_batch() -> None:
    pieces = cut_microbatches(torch.ones(2, 7, dtype=torch.long), lengths_B=torch.tensor([3, 6]), rows=1, multiple=4)
    assert shapes_of(pieces) == ((1, 4), (1, 7))


def test_lengths_of_rows_are_whole_unless_told_and_fit_the_tokens() -> None:
    tokens_BT = torch.ones(2, 5, dtype=torch.long)
    assert MicroBatch(tokens_BT).lengths == (5, 5)
    for lengths in ((5,), (6, 1), (5, 0)):
        with pytest.raises(ValueError, match=f"row lengths {re.escape(str(lengths))} do not fit tokens"):
            MicroBatch(tokens_BT, lengths=lengths)
