import numpy as np

from fusedrl.bench.law import sizes
from fusedrl.bench.pair import NAMES, draw_batches
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.bench.gpu_jobs"


def test_both_models_train_and_start_from_the_seed(ranks: RankPool) -> None:
    ((first,), (again,), (other,)) = (
        ranks.run(f"{JOBS}:gradients_of", world=1, order="fused", seed=seed) for seed in (1, 1, 2)
    )
    assert all(np.abs(each).max() > 0 for each in first)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_batches_have_the_asked_rows_and_depend_on_the_seed_alone() -> None:
    arch = sizes(small=True).arch
    drawn = [draw_batches(arch, rows=(1, 3), length=5, device="cpu", seed=seed) for seed in (0, 0, 1)]  # type: ignore[arg-type]
    assert [each.shape for each in drawn[0]["critic"]] == [(1, 5), (3, 5)]
    for name in NAMES:
        assert drawn[0][name][1].tokens_BT.equal(drawn[1][name][1].tokens_BT)
        assert not drawn[0][name][1].tokens_BT.equal(drawn[2][name][1].tokens_BT)
