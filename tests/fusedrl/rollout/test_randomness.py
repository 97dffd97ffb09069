"""The random numbers are those of SplitMix64, uniform, and named by (seed, step, sample, position) alone."""

import torch

from fusedrl.rollout.randomness import GAMMA, mix, sample_key, sample_keys, uniform


def test_mix_equals_published_splitmix64_stream():
    # first outputs of SplitMix64 from state 1234567 (Vigna's reference implementation)
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + GAMMA) % 2**64
        outputs.append(mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_tensor_numbers_equal_integer_arithmetic():
    key_R = sample_keys([(0, 0, 0), (1, 2, 3), (2**40, 7, 10**9)])
    position_R = torch.tensor([0, 5, 99_999])
    expected = [
        (mix((int(k) + (int(t) + 1) * GAMMA) % 2**64) >> 16) / 2**48 for k, t in zip(key_R, position_R, strict=True)
    ]
    assert uniform(key_R, position_R).tolist() == expected


def test_numbers_invariant_to_batch_and_order():
    names = [(3, 1, i) for i in range(20)]
    alone = torch.cat([uniform(sample_keys([n]), torch.tensor([7])) for n in names])
    together = uniform(sample_keys(names), torch.full((20,), 7))
    reversed_rows = uniform(sample_keys(names[::-1]), torch.full((20,), 7)).flip(0)
    assert torch.equal(alone, together)
    assert torch.equal(together, reversed_rows)


def test_each_name_changes_the_number():
    base = sample_key(1, step=2, sample_id=3)
    assert len({base, sample_key(2, step=2, sample_id=3), sample_key(1, step=3, sample_id=3)}) == 3
    # neither step and sample nor two of them may trade places
    keys = {sample_key(s, step=t, sample_id=i) for s in range(20) for t in range(20) for i in range(20)}
    assert len(keys) == 20**3


def test_numbers_are_uniform_over_samples_and_positions():
    key_R = sample_keys([(0, 0, i) for i in range(200)])
    u = torch.cat([uniform(key_R, torch.full((200,), t)) for t in range(200)])
    counts = torch.histc(u.float(), bins=100, min=0, max=1)
    chi_square = ((counts - 400) ** 2 / 400).sum()
    assert chi_square < 149.4  # 99.9 % of a chi-square with 99 degrees of freedom
    assert u.min() >= 0
    assert u.max() < 1


def test_neighbouring_positions_and_samples_are_uncorrelated():
    key_R = sample_keys([(0, 0, i) for i in range(20_000)])
    now, later = uniform(key_R, torch.zeros(20_000, dtype=torch.int64)), uniform(key_R, torch.ones(20_000).long())
    limit = 4 / 20_000**0.5
    assert abs(torch.corrcoef(torch.stack([now, later]))[0, 1]) < limit
    assert abs(torch.corrcoef(torch.stack([now[1:], now[:-1]]))[0, 1]) < limit
