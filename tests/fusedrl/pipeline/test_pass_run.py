"""What a pass holds on to between its ops; test_executor.py and test_law.py run whole passes."""

from tests.distributed.pool import RankPool


def test_between_b_and_w_only_what_weight_gradients_read_is_held(ranks: RankPool) -> None:
    (found,) = ranks.run("tests.fusedrl.pipeline.split_jobs:held_between_b_and_w", world=1)
    assert found["after F"] > found["after B"] > 0
    assert found["inputs alone"]
    assert found["after W"] == 0
    assert found["weights"] == 4 * 4 + 2  # four matrices a layer, embedding and head
    assert 0 < found["held MiB"] <= found["planned MiB"]
