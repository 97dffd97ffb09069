"""The corners of the grid on eight ranks; the whole of it: `python -m tests.fusedrl.pipeline.law_grid`."""

import pytest

from tests.distributed.pool import RankPool
from tests.fusedrl.pipeline.law_grid import COUNTS, LAYOUTS
from tests.fusedrl.pipeline.test_law import assert_bit_equal, assert_close, check_moved, merged, run

EIGHT = {
    (1, 4, 2): ("mixed7", "unequal", False),
    (2, 4, 1): ("fused_split", "fewer", True),
    (2, 2, 2): ("zero_bubble", "equal", False),
}


def test_grid_is_all_of_two_and_four_stages_one_and_two_shards_and_replicas() -> None:
    assert len(set(LAYOUTS)) == 8
    assert {tuple(sorted(set(sizes))) for sizes in zip(*LAYOUTS, strict=True)} == {(1, 2), (2, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("layout", EIGHT, ids=str)
def test_law_holds_on_eight_ranks(ranks: RankPool, layout: tuple[int, int, int]) -> None:
    method, counts, distributed = EIGHT[layout]
    options = {"passes": COUNTS[counts], "replicas": layout[2], "distributed_optimizer": distributed}
    serial, other = (run(ranks, layout, method=each, **options) for each in ("serial", method))
    check_moved(serial)
    assert_bit_equal(serial, other)
    assert_close(merged(run(ranks, (1, 1, 1), method="plain", **options)), merged(serial))
