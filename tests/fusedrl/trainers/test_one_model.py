import torch

from fusedrl.trainers.one_model import held_out_samples, in_batches


def test_batches_hold_every_item_once_and_repeat_only_to_divide() -> None:
    assert list(in_batches("abcdefg", size=4, multiple=2)) == [(list("abcd"), 4), (list("efgg"), 3)]
    assert list(in_batches("abcde", size=4, multiple=4)) == [(list("abcd"), 4), (list("eeee"), 1)]
    assert list(in_batches("ab", size=4, multiple=1)) == [(["a", "b"], 2)]
    assert list(in_batches("", size=4, multiple=2)) == []


def test_held_out_rows_are_samples_with_the_mask_of_their_responses() -> None:
    tokens_BS = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    samples = held_out_samples(tokens_BS, lengths_B=torch.tensor([4, 2]), prompt_lengths_B=torch.tensor([1, 1]))
    assert samples.lengths_B.tolist() == [4, 2]
    assert samples.mask_BR.tolist() == [[True, True, True], [True, False, False]]
    assert samples.rollout_logp_BR.shape == samples.mask_BR.shape
