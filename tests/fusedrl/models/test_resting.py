"""Storages are emptied where they are and come back with the same bits, whatever looks into them."""

import torch

from fusedrl.models.resting import Resting


def test_contents_come_back_into_the_same_storage_and_its_views() -> None:
    whole = torch.arange(12.0)
    view, other = whole[4:8].view(2, 2), torch.arange(3, dtype=torch.bfloat16)
    before, storages = whole.clone(), [whole.untyped_storage(), other.untyped_storage()]
    resting = Resting(lambda: storages)
    for _ in range(2):
        assert resting.offload() == 12 * 4 + 3 * 2
        assert [storage.nbytes() for storage in storages] == [0, 0]
        resting.onload()
        assert torch.equal(whole, before)
        assert torch.equal(view, torch.tensor([[4.0, 5.0], [6.0, 7.0]]))
        assert other.tolist() == [0, 1, 2]
    view.fill_(9.0)
    assert whole[4:8].tolist() == [9.0] * 4
    resting.offload()
    resting.onload()
    resting.onload()  # nothing is away
    assert view.tolist() == [[9.0, 9.0], [9.0, 9.0]]


def test_what_is_not_kept_comes_back_as_zeros() -> None:
    sums = torch.ones(5)
    resting = Resting(lambda: [sums.untyped_storage()], keeps=False)
    assert resting.offload() == 20
    assert sums.untyped_storage().nbytes() == 0
    resting.onload()
    assert sums.tolist() == [0.0] * 5


def test_storages_may_be_others_the_next_time() -> None:
    found = [torch.full((4,), 3.0).untyped_storage()]
    resting = Resting(lambda: list(found))
    resting.offload()
    resting.onload()
    moments = torch.full((9,), 7.0)
    found[:] = [moments.untyped_storage(), *found]
    assert resting.offload() == 4 * (9 + 4)
    resting.onload()
    assert moments.tolist() == [7.0] * 9
