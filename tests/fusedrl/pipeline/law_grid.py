"""The law over all layouts, micro-batches and orders of a grid, up to 16 ranks: too long for every run of the tests.

    python -m tests.fusedrl.pipeline.law_grid [--ranks 16]

    (pp 2, 4) x (tp 1, 2) x (dp 1, 2)  x  micro-batches equal, unequal, fewer than stages
    x  optimizer plain, distributed
    x  orders fused, split, zero-bubble, random, mixed: each bit-equal to serial, which is within 1e-5 of one rank

Two passes in a row, of different numbers of micro-batches; gradients, norms, parameters and optimizer state after each.
Prints a row a layout; ends with code 1 at the first difference.
"""

import argparse
import itertools
import sys
import time
from typing import Any

from tests.distributed.pool import RankPool
from tests.fusedrl.pipeline.test_law import assert_bit_equal, assert_close, check_moved, merged, run

COUNTS: dict[str, list[dict[str, int]]] = {
    "equal": [{"actor": 4, "critic": 4}, {"actor": 2, "critic": 2}],
    "unequal": [{"actor": 4, "critic": 2}, {"actor": 1, "critic": 3}],
    "fewer": [{"actor": 1, "critic": 1}, {"actor": 1, "critic": 2}],
}
LIMIT_S = 900.0  # of one comparison: 16 ranks may share two cores
ORDERS = ("fused", "fused_split", "zero_bubble", "random7", "mixed7")
LAYOUTS = tuple((tp, pp, dp) for pp, tp, dp in itertools.product((2, 4), (1, 2), (1, 2)))


def check(ranks: RankPool, layout: tuple[int, int, int], **options: Any) -> int:
    """Compare all orders of one cell with serial, and serial with one rank; how many comparisons."""
    serial = run(ranks, layout, method="serial", **options)
    check_moved(serial)
    assert_close(merged(run(ranks, (1, 1, 1), method="plain", **options)), merged(serial))
    for method in ORDERS:
        assert_bit_equal(serial, run(ranks, layout, method=method, **options))
    return 1 + len(ORDERS)


def main() -> None:
    parser = argparse.ArgumentParser(description="The law over the whole grid.")
    parser.add_argument("--ranks", type=int, default=16, help="leave out layouts of more ranks")
    most, pool = parser.parse_args().ranks, RankPool()
    print("| tp | pp | dp | comparisons | all equal | seconds |\n|---|---|---|---|---|---|")
    try:
        for layout in (layout for layout in LAYOUTS if layout[0] * layout[1] * layout[2] <= most):
            print(row(pool, layout), flush=True)
    finally:
        pool.close()


def row(pool: RankPool, layout: tuple[int, int, int]) -> str:
    """All cells of a layout."""
    began, count = time.monotonic(), 0
    for passes, distributed in itertools.product(COUNTS.values(), (False, True)):
        options = {"passes": passes, "replicas": layout[2], "distributed_optimizer": distributed, "limit": LIMIT_S}
        count += check(pool, layout, **options)
    return f"| {' | '.join(map(str, layout))} | {count} | yes | {time.monotonic() - began:.0f} |"


if __name__ == "__main__":
    sys.exit(main())
