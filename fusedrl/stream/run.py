"""One step's stream: the coordinator on rank 0, an instance on each generation replica, one result on every rank.

    result = run_stream(requests, place=place, engine=engine, inference=models, scorer=scorer, options=options)

A collective of all ranks. The secret of the run and the coordinator's address are told through the job's process group,
which nobody outside the job has joined.
"""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch.distributed as dist

from fusedrl.parallel.comm import all_gather_object, broadcast_object
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.spread import assign
from fusedrl.stream.address import listening_address
from fusedrl.stream.client import Client, StreamError
from fusedrl.stream.control import Control, Policy, Work
from fusedrl.stream.coordinator import Coordinator
from fusedrl.stream.costs import StreamCosts
from fusedrl.stream.instance import Engine, Inference, Instance, Place, Stats
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import SampleState, completion_of
from fusedrl.stream.scoring import Scorer
from fusedrl.stream.units import compose
from fusedrl.stream.wire import SECRET_BYTES
from fusedrl.telemetry.timers import Span

END_S = 30.0  # for the coordinator's thread to end after the step


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The same on all ranks. tasks: what each sample is read by; scored: whether a reward function scores samples."""

    policy: Policy = field(default_factory=Policy)
    tasks: Sequence[str] = ()
    scored: bool = True
    unit_size: int = 1
    chunk_tokens: int = 4096
    costs: StreamCosts | None = None
    limits: Limits = field(default_factory=Limits)
    address: str = ""


@dataclass(frozen=True, eq=False)
class StreamResult:
    """The step's samples on every rank, in sample-id order.

    values[name][i]: float32 array of sample i. metrics: seconds, of the step and to the last response, idle ratio,
    moved samples and bytes, refused messages. spans: what this rank did, by time.
    """

    completions: list[Completion]
    scores: list[float]
    values: dict[str, list[np.ndarray]]
    metrics: dict[str, float]
    spans: list[Span] = field(default_factory=list)


def run_stream(
    requests: Sequence[Request],
    *,
    place: Place,
    engine: Engine,
    inference: Inference | None = None,
    scorer: Scorer | None = None,
    options: StreamOptions,
) -> StreamResult:
    """Generate, score and read all requests. Every rank passes the same requests and options; rank 0 the scorer.

    Raises StreamError with one reason on every rank where a rank died, hung or failed.
    """
    coordinator, secret, endpoint = _meet(requests, place=place, scorer=scorer, options=options)
    by_id = {request.sample_id: request for request in requests}
    groups = compose(list(by_id), size=options.unit_size)
    try:
        with _connection(endpoint, secret=secret, place=place, limits=options.limits) as client:
            instance = Instance(
                place,
                engine=engine,
                inference=inference,
                requests=by_id,
                groups=groups,
                client=client,
                costs=options.costs,
            )
            stats = instance.run()
    except BaseException:
        if coordinator is not None:  # it tells the others before this rank goes
            with contextlib.suppress(RuntimeError):
                coordinator.join(options.limits.silence_s + END_S)
        raise
    return replace(_share(coordinator, stats, by_id=by_id, instances=len(place.ranks)), spans=instance.spans)


def _meet(
    requests: Sequence[Request], *, place: Place, scorer: Scorer | None, options: StreamOptions
) -> tuple[Coordinator | None, bytes, str]:
    """Rank 0 starts listening and tells everybody where, and the secret of the run."""
    coordinator, told = None, None
    if dist.get_rank() == 0:
        secret = secrets.token_bytes(SECRET_BYTES)
        try:
            control = Control(_work(requests, place=place, options=options), policy=options.policy)
            coordinator = Coordinator(
                control,
                secret=secret,
                limits=options.limits,
                scorer=scorer,
                address=listening_address(configured=options.address),
            )
            told = [secret, coordinator.endpoint, ""]
        except Exception as error:  # the others are waiting to hear
            told = [b"", "", f"the coordinator cannot start: {error}"]
    secret, endpoint, trouble = broadcast_object(told)
    if trouble:
        raise StreamError(trouble)
    if coordinator is not None:
        coordinator.start()
    return coordinator, secret, endpoint


def _work(requests: Sequence[Request], *, place: Place, options: StreamOptions) -> Work:
    shares = assign(requests, replicas=len(place.ranks))
    rows = {} if options.costs is None else {"destination_rows": options.costs.destination_rows}
    return Work(
        shares=[[request.sample_id for request in share] for share in shares],
        prompt_tokens={request.sample_id: len(request.prompt) for request in requests},
        tasks=options.tasks,
        unit_size=options.unit_size,
        scored=options.scored,
        chunk_tokens=options.chunk_tokens,
        **rows,
    )


def _connection(
    endpoint: str, *, secret: bytes, place: Place, limits: Limits
) -> contextlib.AbstractContextManager[Client | None]:
    if not place.leads:
        return contextlib.nullcontext()
    return Client(endpoint, secret=secret, instance=place.instance, limits=limits)


def _share(
    coordinator: Coordinator | None, stats: Stats, *, by_id: Mapping[int, Request], instances: int
) -> StreamResult:
    """What rank 0 gathered, on every rank."""
    told: Any = None
    if coordinator is not None:
        coordinator.join(END_S)
        told = _wire(coordinator)
    found = broadcast_object(told)
    waited = sum(each["waiting"] for each in all_gather_object(asdict(stats)))
    states = sorted((SampleState(*each) for each in found["samples"]), key=lambda state: state.sample_id)
    finished = [completion_of(state, prompt=by_id[state.sample_id].prompt) for state in states]
    values: dict[str, dict[int, np.ndarray]] = {}
    for name, sample_id, data in found["values"]:
        values.setdefault(name, {})[sample_id] = np.frombuffer(data, dtype="<f4")
    idle = waited / (instances * max(found["metrics"]["seconds"], 1e-9))  # only leaders count their waits
    return StreamResult(
        completions=finished,
        scores=[found["scores"].get(each.sample_id, 0.0) for each in finished],
        values={name: [of_sample[each.sample_id] for each in finished] for name, of_sample in values.items()},
        metrics=found["metrics"] | {"idle_ratio": idle},
    )


def _wire(coordinator: Coordinator) -> dict[str, Any]:
    control = coordinator.control
    return {
        "samples": [[s.sample_id, s.tokens, s.logprobs, s.reason] for s in control.finished.values()],
        "scores": control.scores,
        "values": [[v.name, v.sample_id, v.data] for of_sample in control.values.values() for v in of_sample],
        "metrics": {
            "seconds": coordinator.seconds,
            "generation_seconds": coordinator.generation_seconds,
            "migrated_samples": float(control.moved["samples"]),
            "migrated_bytes": float(control.moved["bytes"]),
            "prefilled_samples": float(control.moved["prefilled"]),
            "refused_messages": float(coordinator.refused.total()),
        },
    }
