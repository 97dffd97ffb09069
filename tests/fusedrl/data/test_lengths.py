import pytest

from fusedrl.data.lengths import within
from fusedrl.data.rows import Row

PAIRS = [(Row("a", place="f:1"), (1, 2)), (Row("b", place="f:2"), (1, 2, 3, 4))]


def test_long_rows_are_left_out_cut_or_refused() -> None:
    assert within(PAIRS, limit=2, truncation="filter", key="k") == ([PAIRS[0]], 1)
    kept, touched = within(PAIRS, limit=2, truncation="truncate", key="k")
    assert ([tokens for _, tokens in kept], touched) == ([(1, 2), (3, 4)], 1)
    with pytest.raises(ValueError, match="f:2: 4 tokens, k=2"):
        within(PAIRS, limit=2, truncation="error", key="k")
    assert within(PAIRS, limit=4, truncation="error", key="k") == (PAIRS, 0)


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(ValueError, match="k=1: all 2 rows are longer"):
        within(PAIRS, limit=1, truncation="filter", key="k")
