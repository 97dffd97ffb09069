import pytest

from fusedrl.data.lengths import within
from fusedrl.data.rows import Row

PAIRS = [
    (Row("short", place="f:1"), (1, 2)),
    (Row("long", place="f:2"), (1, 2, 3, 4)),
    (Row("fits", place="f:3"), (7, 8, 9)),
]
KEY = "data.max_prompt_length"


def test_filter_leaves_out_and_counts() -> None:
    kept, left_out = within(PAIRS, limit=3, truncation="filter", key=KEY)
    assert kept == [PAIRS[0], PAIRS[2]]
    assert left_out == 1


def test_truncate_keeps_the_end_and_counts() -> None:
    kept, cut = within(PAIRS, limit=3, truncation="truncate", key=KEY)
    assert [tokens for _, tokens in kept] == [(1, 2), (2, 3, 4), (7, 8, 9)]
    assert [row.prompt for row, _ in kept] == ["short", "long", "fits"]
    assert cut == 1


def test_error_names_the_row_the_numbers_and_the_key() -> None:
    with pytest.raises(
        ValueError, match=r"f:2: 4 tokens, data\.max_prompt_length=3; raise it, or set data\.truncation"
    ):
        within(PAIRS, limit=3, truncation="error", key=KEY)


@pytest.mark.parametrize("truncation", ["filter", "error", "truncate"])
def test_rows_that_fit_are_untouched_at_the_limit_itself(truncation: str) -> None:
    assert within(PAIRS, limit=4, truncation=truncation, key=KEY) == (PAIRS, 0)


def test_no_row_left_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"data\.max_prompt_length=1: all 3 rows are longer"):
        within(PAIRS, limit=1, truncation="filter", key=KEY)
