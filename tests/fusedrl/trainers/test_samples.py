import torch

from fusedrl.pipeline.microbatch import gather_microbatches
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.samples import gather_samples


def completion(sample_id: int, prompt: tuple[int, ...], tokens: tuple[int, ...], reason: str) -> Completion:
    logprobs = tuple(-float(token) for token in tokens)
    return Completion(sample_id=sample_id, prompt=prompt, tokens=tokens, logprobs=logprobs, finish_reason=reason)  # type: ignore[arg-type]


def test_rows_are_right_padded_and_masked_by_length() -> None:
    # the pad id 7 is a token of the second response, which counts all the same
    samples = gather_samples(
        [completion(0, (1, 2, 3), (4,), "stop"), completion(1, (1,), (7, 7, 5), "length")],
        max_response_length=4,
        pad_id=7,
    )
    assert samples.tokens_BS.tolist() == [[1, 2, 3, 4], [1, 7, 7, 5]]
    assert samples.mask_BR.tolist() == [[True, False, False, False], [True, True, True, False]]
    assert samples.rollout_logp_BR.tolist() == [[-4, 0, 0, 0], [-7, -7, -5, 0]]
    assert samples.lengths_B.tolist() == [4, 4]
    assert samples.ended_B is not None
    assert samples.ended_B.tolist() == [True, False]
    assert (samples.size, samples.width) == (2, 4)


def test_an_empty_response_is_a_row_without_a_valid_token() -> None:
    samples = gather_samples([completion(0, (1, 2), (), "length")], max_response_length=3, pad_id=0)
    assert samples.tokens_BS.tolist() == [[1, 2]]
    assert not bool(samples.mask_BR.any())
    assert torch.equal(samples.response_lengths_B, torch.tensor([0]))


def test_a_short_row_beside_a_long_one_has_positions_from_zero() -> None:
    """Three tokens beside five: positions 0, 1, 2, with the two that are missing behind them."""
    completions = [completion(0, (5, 6), (7,), "stop"), completion(1, (5, 6, 7, 8), (9,), "stop")]
    samples = gather_samples(completions, max_response_length=2, pad_id=0)
    (microbatch,) = gather_microbatches(samples.tokens_BS, lengths_B=samples.lengths_B, groups=[torch.arange(2)])
    real_B5 = torch.arange(5) < samples.lengths_B[:, None]
    assert microbatch.tokens_BT[0][real_B5[0]].tolist() == [5, 6, 7]
    assert microbatch.position_ids_BT()[0][real_B5[0]].tolist() == [0, 1, 2]
