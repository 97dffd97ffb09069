from pathlib import Path
from typing import Any

import pytest

from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"


@pytest.mark.parametrize("head", ["lm", "value"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_seed_gives_the_same_model_in_every_layout(ranks: RankPool, tmp_path: Path, head: str, tied: bool) -> None:
    found = []
    for index, (layout, reverse) in enumerate(
        [((1, 1, 1), False), ((2, 1, 1), False), ((1, 2, 1), True), ((2, 2, 1), False)]
    ):
        results = ranks.run(
            f"{JOBS}:digests_of_seed",
            world=layout[0] * layout[1],
            arch={"tied": tied, "qkv_bias": True, "family": "qwen2"},
            layout=layout,
            reverse=reverse,
            head=head,
            seed=11,
            folder=str(tmp_path / str(index)),
        )
        found += results
    assert all(digests == found[0] for digests in found)


def test_two_models_on_the_same_ranks_share_no_config_and_run_opposite_ways(ranks: RankPool) -> None:
    first, last = ranks.run(f"{JOBS}:facts_of_two_models", world=2)
    assert not first["same_config"]
    assert (first["actor_layers"], first["critic_layers"]) == ([1, 2], [3, 4])
    assert (last["actor_layers"], last["critic_layers"]) == ([3, 4], [1, 2])
    assert (first["actor_embeds"], first["critic_embeds"]) == (True, False)
    assert (last["actor_embeds"], last["critic_embeds"]) == (False, True)
    assert (first["critic_head"], last["critic_head"]) == ([1, 32], None)
    assert first["padded_vocab"] == 128


def test_building_leaves_the_global_generator_alone(ranks: RankPool) -> None:
    assert ranks.run(f"{JOBS}:facts_of_two_models", world=1)[0]["random_state_untouched"]


@pytest.mark.parametrize(
    ("arch", "layout", "padded", "message"),
    [
        ({"num_kv_heads": 1}, (2, 1, 1), None, "critic.megatron.tensor_model_parallel_size=2"),
        ({"num_layers": 3}, (1, 2, 1), None, "critic.megatron.pipeline_model_parallel_size=2"),
        ({}, (2, 1, 1), 49, "padded_vocab=49 must hold 50 tokens"),
        ({}, (2, 1, 1), 51, "a multiple of tp=2"),
    ],
)
def test_model_that_the_groups_cannot_hold_is_refused(
    ranks: RankPool, arch: dict[str, Any], layout: tuple[int, int, int], padded: int | None, message: str
) -> None:
    errors = ranks.run(f"{JOBS}:build_error", world=2, arch=arch, layout=layout, padded_vocab=padded)
    assert all(message in error for error in errors), errors


def test_local_layers_need_no_library_that_megatron_found(ranks: RankPool) -> None:
    """With apex installed Megatron takes apex's norm, which is no RMSNorm; on CUDA nobody else makes the buffer."""
    assert ranks.run(f"{JOBS}:build_beside_another_norm", world=1) == [{"norm": "RMSNorm", "buffer": True}]


def test_packed_rows_are_not_shared_by_ranks(ranks: RankPool) -> None:
    errors = ranks.run(f"{JOBS}:build_error", world=2, arch={}, layout=(1, 1, 1, 2), packed=True)
    wanted = "critic.megatron.use_remove_padding=true with critic.megatron.context_parallel_size=2"
    assert all(error.startswith(wanted) for error in errors), errors
