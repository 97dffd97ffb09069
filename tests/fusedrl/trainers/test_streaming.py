"""Streaming and migration change when and where work happens, never what a step learns from: bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fusedrl.stream.client import StreamError
from fusedrl.trainers.entry import in_world
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_ppo_runs import REWARD, SIZES
from tests.fusedrl.trainers.test_preflight import model

ROLLOUT = "actor_rollout_ref.rollout."
FORCED: dict[str, Any] = {"streaming": True, "migration_threshold": 7, "migration_destinations": 1}
WAYS: dict[str, dict[str, Any]] = {
    "stages": {},
    "streaming": {"streaming": True, "migration": False},
    "cache": {**FORCED, "migration_by": "cache"},
    "prefill": {**FORCED, "migration_by": "prefill"},
}


@pytest.fixture(scope="module")
def overrides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """All models, samples long enough to be caught on their way."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "reward.py").write_text(REWARD)
    return [
        *SIZES,
        "algorithm=ppo_kl",
        "data.max_response_length=24",
        f"{ROLLOUT}inference=instances",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "custom_reward_function.num_workers=2",
        f"custom_reward_function.path={folder / 'reward.py'}",
        f"actor_rollout_ref.model.path={model(folder / 'actor')}",
        "reward_model.enable=true",
        f"reward_model.model.path={model(folder / 'reward', head='value')}",
    ]


def test_whole_runs_learn_the_same_and_agree_with_the_pipelines_inference(
    ranks: RankPool, tmp_path: Path, overrides: list[str]
) -> None:
    def run(name: str, **changes: Any) -> list[str]:
        keys = [f"{ROLLOUT}{key}={value}" for key, value in changes.items()]
        return [*overrides, f"trainer.default_local_dir={tmp_path / name}", *keys]

    runs = {name: run(name, **WAYS[name]) for name in ("stages", "cache")} | {
        "pipeline": run("pipeline", inference="pipeline")
    }
    found = ranks.run("tests.fusedrl.trainers.stream_jobs:learned", world=2, limit=400, runs=runs, steps=2)
    for mine in found:
        for stages, cache in zip(found[0]["stages"], mine["cache"], strict=True):
            assert cache["computed"] == stages["computed"]
            assert cache["experience"] == stages["experience"]
        moved = [step["stream"]["rollout/migrated_bytes"] for step in mine["cache"]]
        assert all(moved)
        assert all(step["stream"]["timing_s/gen"] < step["stream"]["timing_s/stream"] for step in mine["cache"])
    stages, pipeline = (found[0][name][0] for name in ("stages", "pipeline"))
    assert stages["experience"]["tokens"] == pipeline["experience"]["tokens"]
    for name, values in stages["experience"].items():
        mask = torch.tensor(pipeline["experience"]["mask"])
        mine, theirs = torch.tensor(values), torch.tensor(pipeline["experience"][name])
        if mine.shape == mask.shape:
            mine, theirs = mine[mask], theirs[mask]
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_all_ways_gather_the_same_on_tensor_parallel_instances_and_end_together(
    ranks: RankPool, tmp_path: Path, overrides: list[str]
) -> None:
    given = [*overrides, f"{ROLLOUT}tensor_model_parallel_size=2", f"trainer.default_local_dir={tmp_path}"]
    found = ranks.run("tests.fusedrl.trainers.stream_jobs:same_weights", world=4, limit=400, overrides=given, ways=WAYS)
    for mine in found:
        for step in (1, 2):
            for name in WAYS:
                assert mine[f"{name} {step}"]["tensors"] == found[0][f"stages {step}"]["tensors"]
            cache, prefill = (mine[f"{name} {step}"]["metrics"] for name in ("cache", "prefill"))
            assert cache["rollout/migrated_samples"] > cache["rollout/prefilled_samples"]
            assert cache["rollout/migrated_bytes"] > 0 == prefill["rollout/migrated_bytes"]
            assert prefill["rollout/migrated_samples"] == prefill["rollout/prefilled_samples"] > 0
        assert found[0]["stages 1"]["tensors"] != found[0]["stages 2"]["tensors"]
        streamed, by_stages = mine["baseline"]
        assert streamed == by_stages
    raised, told = ([mine["failure"][key] for mine in found] for key in ("raised", "told"))
    assert raised == [*["instance 1 failed: MemoryError: no room"] * 2, *["MemoryError: no room"] * 2]
    assert told == [[], [], *[[f"rank {rank} failed in the stream of samples"] for rank in (2, 3)]]


def test_a_stream_that_failed_ends_its_rank_with_code_1() -> None:
    def run() -> None:
        raise StreamError("instance 1 was last heard 30.0 s ago")

    with pytest.raises(SystemExit) as end:
        in_world("ppo", run, timeout_s=5)
    assert end.value.code == 1
