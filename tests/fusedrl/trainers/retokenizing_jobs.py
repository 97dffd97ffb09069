"""One step's samples of several PPO runs and what their reward models say of them, on gloo ranks."""

from typing import Any

from fusedrl.config.load import load
from fusedrl.trainers.setup_ppo import ppo_run


def gathered(runs: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    return {name: _gathered(overrides) for name, overrides in runs.items()}


def _gathered(overrides: list[str]) -> dict[str, Any]:
    with ppo_run(load("ppo", overrides), command=["test"]) as (ppo, _):
        ppo.generator.load(ppo.actor)
        if ppo.stream is None:
            found = ppo.by_stages(1)
        else:
            ppo.stream.load(ppo.critic)
            found = ppo.streamed(ppo.stream, ppo.rows(), 1)
        samples = found.samples
        assert samples.ended_B is not None
        lengths = samples.lengths_B.tolist()
        rows = [row[:length] for row, length in zip(samples.tokens_BS.tolist(), lengths, strict=True)]
        return {
            "rows": list(zip(rows, samples.ended_B.tolist(), strict=True)),
            "scores": found.inferred["rm_score"][:, 0].tolist(),
            "retokenized": ppo.retokenizer is not None,
            "cut": found.metrics.get("reward/retokenized_cut"),
        }
