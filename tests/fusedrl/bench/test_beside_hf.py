"""Our engine equals Hugging Face's model where both hold the same weights, and the comparison sees it where not."""

from pathlib import Path

from tests.distributed.pool import RankPool


def test_the_comparison_tells_equal_models_from_unequal_ones(ranks: RankPool, tmp_path: Path) -> None:
    (found,) = ranks.run("tests.fusedrl.bench.beside_jobs:compare_small_model", world=1, folder=str(tmp_path))
    assert [each["prompt"] for each in found["right"]] == ["1+2=", "30+4="]
    for right, wrong in zip(found["right"], found["wrong"], strict=True):
        assert right["same_tokens"]
        assert right["engine"] == right["hugging_face"]
        assert right["largest_difference"] < 1e-4
        assert not wrong["same_tokens"]
        assert wrong["largest_difference"] > 0.1
