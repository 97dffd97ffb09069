"""PPO runs whose samples flow, on gloo ranks; engines in fp64, so that rounding of decode steps shows nowhere."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from fusedrl.config.load import load
from fusedrl.rollout.handover import HandOverReport, hand_over
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.stream.client import StreamError
from fusedrl.stream.costs import StreamCosts
from fusedrl.trainers import generation, streaming
from fusedrl.trainers.ppo import PPO
from fusedrl.trainers.setup_ppo import ppo_run
from fusedrl.trainers.streaming import Gathered, SampleStream
from tests.fusedrl.stream.holding import HeldStreamedEngine

SCATTERED = ("timing_s/", "timing_per_token_ms/", "perf/", "schedule/", "rollout/")
"""Metrics of time, of memory and of what moved; all others tell what was computed."""


@contextmanager
def engines_in_doubles() -> Iterator[None]:
    """Megatron-Core trains no fp64: weights arrive in an fp32 twin and are copied."""
    build, twins = generation.build_model, {}

    def doubled(*args: Any, dtype: torch.dtype, **options: Any) -> nn.Module:
        model = build(*args, dtype=torch.float64, **options)
        twins[model] = build(*args, dtype=dtype, **options)
        return model

    def load_doubled(engine: MegatronEngine, source: nn.Module) -> HandOverReport:
        report = hand_over(source, twins[engine.model])
        for mine, theirs in zip(engine.model.parameters(), twins[engine.model].parameters(), strict=True):
            mine.data.copy_(theirs.data)
        return report

    with patch.object(generation, "build_model", doubled), patch.object(MegatronEngine, "load", load_doubled):
        yield


def learned(*, runs: Mapping[str, Sequence[str]], steps: int) -> dict[str, list[dict[str, Any]]]:
    """Of each step of each run: the metrics of what was computed, of what moved, and the experience."""
    return {name: _learned(overrides, steps=steps) for name, overrides in runs.items()}


def _learned(overrides: Sequence[str], *, steps: int) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    config = load("ppo", list(overrides))
    held = _held(migrates=config.actor_rollout_ref.rollout.migration_threshold is not None)
    with engines_in_doubles(), held, _anywhere(), ppo_run(config, command=["test"]) as (ppo, _):
        make = ppo.experience

        def keep(*given: Any) -> Any:
            found = make(*given)
            more = {"tokens": found.samples.tokens_BS, "scores": found.score_B}
            kept.append({name: value.tolist() for name, value in (found.fields() | more).items()})
            return found

        with patch.object(ppo, "experience", keep):
            history = ppo.run(steps=steps)[1:]
    return [
        {
            "computed": {name: value for name, value in metrics.items() if not name.startswith(SCATTERED)},
            "stream": {name: value for name, value in metrics.items() if name.startswith(SCATTERED)},
            "experience": experience,
        }
        for metrics, experience in zip(history, kept, strict=True)
    ]


def _held(*, migrates: bool) -> AbstractContextManager[Any]:
    """Streams made within wait for their migration, if there is to be one."""
    return patch.object(streaming, "StreamedEngine", HeldStreamedEngine) if migrates else nullcontext()


def _anywhere() -> AbstractContextManager[Any]:
    """One instance may take all samples, however this machine's decode steps were measured."""
    return patch.object(StreamCosts, "destination_rows", 1 << 30)


def same_weights(*, overrides: list[str], ways: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What each way of one run gathers from the same prompts and weights, before and after an update; then its end by
    engines that fail on ranks 2 and 3."""
    found: dict[str, Any] = {}
    with engines_in_doubles(), _anywhere(), ppo_run(load("ppo", overrides), command=["test"]) as (ppo, _):
        streams = {name: _stream(ppo, changes) for name, changes in ways.items()}
        for step in (1, 2):
            rows = ppo.prompts.next(4)
            ppo.generator.load(ppo.actor)
            _main(ppo).load(ppo.critic)
            for name, stream in streams.items():
                found[f"{name} {step}"] = _plain(ppo.streamed(stream, rows, step))
            if step == 1:
                ppo.step(step)
        found["baseline"] = _baselines(ppo)
        found["failure"] = _failure(ppo)
    return found


def _main(ppo: PPO) -> SampleStream:
    assert ppo.stream is not None
    return ppo.stream


def _stream(ppo: PPO, changes: Mapping[str, Any]) -> SampleStream:
    """The run's stream under another configuration."""
    given = _main(ppo)
    with _held(migrates="migration_threshold" in changes):
        return SampleStream(
            replace(ppo.config.actor_rollout_ref.rollout, **changes),
            ppo.generator,
            given.readers,
            width=ppo.config.data.max_response_length,
            pad_id=ppo.prompts.pad_token_id,
            decode=ppo.prompts.decode,
            scored=True,
            runners=getattr(ppo.runner, "runners", ()),
            timeout_s=60.0,
        )


def _plain(gathered: Gathered) -> dict[str, Any]:
    samples = gathered.samples
    tensors: dict[str, Tensor] = {
        "tokens": samples.tokens_BS,
        "rollout_logp": samples.rollout_logp_BR,
        "lengths": samples.lengths_B,
        "scores": gathered.scores.score_B,
        **gathered.inferred,
    }
    return {"tensors": {name: each.tolist() for name, each in tensors.items()}, "metrics": gathered.metrics}


def _baselines(ppo: PPO) -> list[list[float]]:
    """ReMax's scores of greedy responses by the stream, and stage by stage with the same readers."""
    rows = ppo.prompts.next(4)
    params = ppo._greedy_params(3)
    streamed = _main(ppo).baseline(rows, params=params)
    completions = ppo.greedy(rows, step=3)
    read = [float(_main(ppo).readers.infer("reward", [each])["rm_score"][0][0]) for each in completions]
    return [streamed.tolist(), (ppo.score(rows, completions).score_B + torch.tensor(read)).tolist()]


def _failure(ppo: PPO) -> dict[str, Any]:
    """What this rank raises and logs where the engines of ranks 2 and 3 fail."""
    told: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("fusedrl.trainers.streaming")
    log.addHandler(listener)
    try:
        with patch.object(MegatronEngine, "step", _step_but_on_instance_1(MegatronEngine.step)):
            ppo.step(4)
    except StreamError as error:
        return {"raised": str(error), "told": told}
    finally:
        log.removeHandler(listener)
    return {"raised": "", "told": told}


def _step_but_on_instance_1(step: Any) -> Any:
    def failing(engine: MegatronEngine) -> Any:
        if torch.distributed.get_rank() >= 2:
            raise MemoryError("no room")
        return step(engine)

    return failing
