import pytest
import torch

from fusedrl.rl import batching
from fusedrl.rl.batching import BatchSizes
from tests.fusedrl.rl.reference import rows


def test_sizes_are_derived_exactly() -> None:
    sizes = BatchSizes(samples=64, mini_batch=32, micro_batch=4, dp=2)
    assert (sizes.mini_batches, sizes.mini_batch_per_rank, sizes.micro_batches) == (2, 16, 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"samples": 60, "mini_batch": 32, "micro_batch": 4, "dp": 2},
            r"rollout.n is 60, not a multiple of critic.ppo_mini_batch_size \(32\): take 32 or 64",
        ),
        (
            {"samples": 30, "mini_batch": 15, "micro_batch": 1, "dp": 2},
            r"critic.ppo_mini_batch_size is 15, not a multiple of the data-parallel size \(2\): take 14 or 16",
        ),
        (
            {"samples": 32, "mini_batch": 32, "micro_batch": 5, "dp": 2},
            r"\(32 / 2\) is 16, not a multiple of critic.ppo_micro_batch_size_per_gpu \(5\): take 15 or 20",
        ),
        (
            {"samples": 8, "mini_batch": 32, "micro_batch": 4, "dp": 2},
            r"is 8, not a multiple of critic.ppo_mini_batch_size \(32\): take 32, or",
        ),
        ({"samples": 8, "mini_batch": 0, "micro_batch": 4, "dp": 2}, r"critic.ppo_mini_batch_size is 0: make it at"),
        ({"samples": 8, "mini_batch": 8, "micro_batch": 0, "dp": 2}, r"critic.ppo_micro_batch_size_per_gpu is 0"),
        ({"samples": 0, "mini_batch": 8, "micro_batch": 1, "dp": 2}, r"data.train_batch_size x rollout.n is 0"),
    ],
)
def test_sizes_that_do_not_divide_name_keys_and_numbers(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchSizes(**sizes, role="critic")


def test_every_sample_is_in_exactly_one_micro_batch() -> None:
    sizes = BatchSizes(samples=24, mini_batch=12, micro_batch=2, dp=3)
    order_N = batching.shuffled(24, seed=1, epoch=0)
    seen = [
        micro
        for mini in batching.mini_batches(order_N, sizes)
        for dp_rank in range(3)
        for micro in batching.micro_batches(batching.rank_share(mini, sizes, dp_rank=dp_rank), sizes)
    ]
    assert [len(micro) for micro in seen] == [2] * 12
    assert torch.equal(torch.cat(seen), order_N)


def test_shuffle_is_a_permutation_set_by_seed_and_epoch() -> None:
    order = batching.shuffled(50, seed=3, epoch=1)
    assert torch.equal(order.sort().values, torch.arange(50))
    assert torch.equal(order, batching.shuffled(50, seed=3, epoch=1))
    assert not torch.equal(order, batching.shuffled(50, seed=3, epoch=2))
    assert not torch.equal(order, batching.shuffled(50, seed=4, epoch=1))


def test_rows_come_back_in_their_own_order_whatever_order_they_were_worked_on() -> None:
    fields = {"mask": rows([1, 1, 1], [1, 0, 0]), "length": torch.tensor([3, 1])}
    order = torch.tensor([1, 0])
    moved = batching.take(fields, order)
    assert moved["length"].tolist() == [1, 3]
    restored = batching.restore_order(list(moved["mask"].split(1)), list(order.split(1)))
    assert restored.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_restore_undoes_a_permutation_that_is_not_its_own_inverse() -> None:
    order, x = torch.tensor([2, 0, 1, 3]), torch.tensor([10, 11, 12, 13])
    pieces = [x[part] for part in order.split([1, 3])]
    assert torch.equal(batching.restore_order(pieces, order.split([1, 3])), x)


def test_a_lost_or_doubled_row_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no permutation of 0..1: one is lost or doubled"):
        batching.restore_order([torch.zeros(2)], [torch.tensor([0, 0])])


def test_cutting_another_number_of_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="6 samples to cut, but the sizes were made for 8"):
        batching.mini_batches(torch.arange(6), BatchSizes(samples=8, mini_batch=4, micro_batch=2, dp=1))
