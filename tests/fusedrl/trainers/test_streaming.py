"""Streaming and migration change when and where work happens, never what a step learns from: bit for bit."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fusedrl.config.schema import RolloutConfig
from fusedrl.config.schema.policy import StreamConfig
from fusedrl.rewards.sample import RewardResult
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream.client import StreamError
from fusedrl.stream.control import Policy
from fusedrl.stream.messages import SampleState
from fusedrl.stream.run import StreamResult
from fusedrl.trainers import streaming
from fusedrl.trainers.entry import in_world
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.stream_costs import GUESS
from fusedrl.trainers.streaming import SampleStream, limits_of
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


def row(truth: str) -> PromptRow:
    return PromptRow((1, 2), "sums", truth, {"split": truth})


def test_a_response_is_judged_by_its_own_prompt() -> None:
    stream: Any = SimpleNamespace(_asked=([row("a"), row("b")], 3), _decode=lambda tokens: f"{tokens}")
    state = SampleState(4, np.array([5, 6], dtype="<i4").tobytes(), bytes(8), "stop")
    found = SampleStream._question(stream, state)
    assert (found.sample_id, found.solution_str, found.ground_truth) == ("4", "[5, 6]", "b")
    assert (found.data_source, found.extra_info) == ("sums", {"split": "b"})


def result() -> StreamResult:
    completions = [
        Completion(sample_id=i, prompt=(1, 2), tokens=(3,) * (i + 1), logprobs=(0.0,) * (i + 1), finish_reason="stop")
        for i in range(2)
    ]
    counts = dict.fromkeys(("migrated_samples", "migrated_bytes", "prefilled_samples", "refused_messages"), 2.0)
    metrics = {"generation_seconds": 3.0, "seconds": 4.0, "idle_ratio": 0.25, **counts}
    return StreamResult(completions, [0.5, 1.5], {}, metrics)


def test_a_step_gives_the_engine_and_the_models_their_rest_and_tells_its_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    asked: list[Any] = []
    readers = SimpleNamespace(
        tasks=("actor", "ref"), readers={}, rest=lambda: done.append("readers"), take_cut=lambda: 5
    )
    stream: Any = SimpleNamespace(
        _config=RolloutConfig(stream=StreamConfig(unit_size=2, chunk_tokens=77, address="10.0.0.1")),
        _generator=SimpleNamespace(engine=SimpleNamespace(release_cache=lambda: done.append("cache"))),
        readers=readers,
        _choice=SimpleNamespace(
            next=lambda requests, migrates: (Policy(r_t=3 * migrates, m=2), GUESS), observe=done.append
        ),
        _scorer=SimpleNamespace(
            results={0: RewardResult("0", 0.5, extra={"part/right": 0.25}), 1: RewardResult("1", 1.5, "timeout")}
        ),
        _or_tell=lambda run: run(),
        **dict.fromkeys(("_place", "_engine"), None),
        _scored=True,
        _limits=limits_of(RolloutConfig(), timeout_s=5.0),
        _width=4,
        _pad_id=0,
    )
    for name in ("_run", "_scores", "_inferred"):
        setattr(stream, name, getattr(SampleStream, name).__get__(stream))
    monkeypatch.setattr(streaming, "broadcast_object", lambda value: value)

    def run_stream(requests: Any, **given: Any) -> StreamResult:
        asked.append((requests, given))
        return result()

    monkeypatch.setattr(streaming, "run_stream", run_stream)
    rows = [row("a"), row("b")]
    found = SampleStream.run(stream, rows, n=1, params=SamplingParams())
    assert done == ["cache", "readers", [1, 2]]
    assert found.samples.response_lengths_B.tolist() == [1, 2]
    assert found.scores.score_B.tolist() == [0.5, 1.5]
    assert found.scores.metrics == {"reward/failed_calls": 1.0, "reward/right/mean": 0.25}
    assert found.timing_s == {"timing_s/gen": 3.0, "timing_s/stream": 4.0}
    told = {name.partition("/")[2]: value for name, value in found.metrics.items()}
    assert (told["rollout_idle_ratio"], told["migration_threshold"], told["migration_destinations"]) == (0.25, 3.0, 2.0)
    assert told["migrated_samples"] == told["prefilled_samples"] == told["refused_messages"] == 2.0
    (_, given), *_ = asked
    options = given["options"]
    assert (options.tasks, options.unit_size, options.chunk_tokens) == (("actor", "ref"), 2, 77)
    assert (options.address, options.scored, options.costs) == ("10.0.0.1", True, GUESS)
    assert stream._asked == readers.asked == (rows, 1)
    assert found.metrics["reward/retokenized_cut"] == 5.0
    scores = SampleStream.baseline(stream, rows, params=SamplingParams(temperature=0.0))
    assert scores.tolist() == [0.5, 1.5]
    assert asked[1][1]["options"].tasks == []  # no reward model, nothing to read
    assert asked[1][1]["options"].policy.r_t == 0
    assert done == ["cache", "readers", [1, 2], "cache", "readers"]  # greedy lengths are not the samples'
    assert streaming._metrics(result().metrics, Policy(r_t=0, m=2))["rollout/migration_destinations"] == 0.0


def test_limits_are_those_of_the_configuration() -> None:
    found = limits_of(RolloutConfig(stream=StreamConfig(silence_s=1.0, step_s=9.0)), timeout_s=7.0)
    assert (found.pulse_s, found.silence_s, found.step_s) == (0.2, 1.0, 9.0)
    assert (found.stall_s, found.join_s) == (7.0, 7.0)
    assert limits_of(RolloutConfig(), timeout_s=7.0).pulse_s == 0.5
