"""Jobs of the vLLM engine's tests: the same requests on vLLM and on the built-in engine, after the same hand-overs."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.models.architecture import Architecture
from fusedrl.parallel.layout import Layout
from fusedrl.rollout.hf_stream import HfStream
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.vllm import VllmEngine
from fusedrl.rollout.vllm_settings import EngineSettings
from tests.distributed.rollout_jobs import MAX_LENGTH, _change, _message, engine_of, model_of, trainer_logprobs


def vllm_engine(folder: str, *, tp: int = 1, max_rows: int = 16) -> VllmEngine:
    return VllmEngine(
        EngineSettings(
            folder=folder,
            arch=Architecture.from_folder(folder),
            dtype=torch.float32,
            tp=tp,
            max_length=MAX_LENGTH,
            max_rows=max_rows,
        )
    )


def forget_groups() -> None:
    """Forget vLLM's groups, which end with the default group: the next job has another world."""
    from vllm.distributed import parallel_state

    for name, value in list(vars(parallel_state).items()):
        if isinstance(value, parallel_state.GroupCoordinator):
            setattr(parallel_state, name, None)


def both_engines(
    folder: str,
    requests: Sequence[Request],
    *,
    layout: dict[str, int] | None = None,
    tp: int = 1,
    temperatures: Sequence[float] = (),
    moves: bool = False,
) -> dict[str, Any]:
    """What vLLM and the built-in engine generate with the weights of a folder, and with changed ones.

    temperatures: of the trainer's log-probabilities of vLLM's first completions. moves: also with samples taken out
    and put back.
    """
    trained = model_of(folder, layout=Layout(**(layout or {})))
    before = torch.get_rng_state()
    engine = vllm_engine(folder, tp=tp)
    same_state = torch.equal(before, torch.get_rng_state())
    own = engine_of(folder, tp=tp, loaded=False, seed=5)
    facts: dict[str, Any] = {"report": asdict(engine.load(trained)), "same_random_state": same_state}
    own.load(trained)
    facts["vllm"], facts["megatron"] = engine.generate(requests), own.generate(requests)
    if temperatures:
        facts["trainer"] = {t: trainer_logprobs(folder, facts["vllm"], tp=tp, temperature=t) for t in set(temperatures)}
    if moves:
        facts["interrupted"] = interrupted(engine, requests, seed=3)
    _change(trained)
    facts["report_again"] = asdict(engine.load(trained))
    own.load(trained)
    facts["vllm_again"], facts["megatron_again"] = engine.generate(requests), own.generate(requests)
    forget_groups()
    return facts


def interrupted(engine: VllmEngine, requests: Sequence[Request], *, seed: int) -> list[Completion]:
    """At random steps random samples are taken out, and come back later, half generated."""
    chance = random.Random(seed)
    engine.add(requests)
    inside, outside, completions = {r.sample_id for r in requests}, list[Request](), list[Completion]()
    while inside or outside:
        done = engine.step()
        completions += done
        inside -= {completion.sample_id for completion in done}
        engine.add(outside)
        inside |= {request.sample_id for request in outside}
        outside = engine.extract([sample_id for sample_id in sorted(inside) if chance.random() < 0.2])
        inside -= {request.sample_id for request in outside}
    return sorted(completions, key=lambda c: c.sample_id)


def misuse(folder: str) -> list[str]:
    """What the engine says to calls that it must refuse."""
    trained, engine = model_of(folder, layout=Layout()), vllm_engine(folder)
    requests = [Request(sample_id=i, prompt=(1, 2), params=SamplingParams()) for i in range(2)]
    engine.add(requests)
    said = [_message(engine.step)]
    engine.load(trained)
    engine.step()
    said += [
        _message(lambda: engine.add(requests)),
        _message(lambda: engine.generate([])),
        _message(lambda: engine.extract([7])),
        _message(lambda: engine.load(trained)),
        _message(engine.release_cache),
    ]
    forget_groups()
    return said


def whole_stream(
    folder: str, *, source: dict[str, Any], bucket_bytes: int
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, Any]]:
    """(Hugging Face tensors of a model's stream, the same after its weights were changed, bytes and messages)."""
    trained = model_of(folder, **{**source, "layout": Layout(**source["layout"])})
    stream = HfStream(trained, arch=Architecture.from_folder(folder), bucket_bytes=bucket_bytes)
    first = {name: tensor.clone() for name, tensor in stream.tensors()}
    _change(trained)
    again = {name: tensor.clone() for name, tensor in stream.tensors()}
    return first, again, {**asdict(stream.traffic), "rank": dist.get_rank()}
