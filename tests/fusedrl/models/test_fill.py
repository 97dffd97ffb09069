import pytest

from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"


@pytest.mark.parametrize("layout", [(1, 1, 1), (2, 1, 1), (1, 2, 1)])
def test_every_number_is_overwritten_and_padding_is_zero(ranks: RankPool, layout: tuple[int, int, int]) -> None:
    found = ranks.run(f"{JOBS}:values_after_filling_with_ones", world=layout[0] * layout[1], layout=layout)
    for of_rank in found:
        assert of_rank["others"] == {1.0}
        assert of_rank["tables"] <= {0.0, 1.0}
    assert sum(of_rank["embedding_rows"] for of_rank in found) == 50
