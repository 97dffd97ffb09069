"""Generation and inference as one flow on the engines (rollout.inference=instances), as the stream's simulator has it.

    seconds = generation + what inference takes beyond the last token, under the best of a few migrations of the tail

Finished samples are read by whichever engine has nothing to generate, so that the tail of long responses hides reading.
Engines of one stage; copies of the reference, the reward model and the critic lie beside the actor, in its layout.
"""

from functools import lru_cache

from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.decode import step_times
from fusedrl.plan.memory import Memory, stages_of, weights
from fusedrl.plan.price import Price, Pricer
from fusedrl.stream.control import Policy
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.simulator import Batch, Simulator

STREAMED = ("actor_gen", "actor_logp", "ref", "reward", "critic_values")
CHUNK = 4096  # tokens handed to an idle engine at once, at most: rollout.stream.chunk_tokens
_LEFT = (0.0, 0.0625, 0.125, 0.25)  # shares of the samples unfinished when the tail moves together; 0: it never does
_STAY = (1, 4, 2)  # onto one engine, a quarter of them, a half


def may_stream(pricer: Pricer, way: Way) -> bool:
    """The trainer asks for engines on all ranks; those of several stages do not read."""
    return way.pp == 1 and way.mesh.count == pricer.costs.cluster.world


@lru_cache(maxsize=10_000)
def streamed_price(pricer: Pricer, way: Way) -> Price:
    """Of generation and all inference on the engines of `way`."""
    generated = pricer.price(CALLS["actor_gen"], way)
    models = {name: pricer.models[CALLS[name].model] for name in STREAMED[1:] if CALLS[name].model in pricer.models}
    frozen = sum(
        weights(model, stage, way.layout, dtype=pricer.costs.dtype).total
        for name, model in models.items()
        for stage in stages_of(model, way.layout)
        if CALLS[name].source is None
    )
    held = Memory({"weights": frozen})
    parts = {**generated.parts, "inference after": beyond(pricer, way)}
    return Price(parts, held, held + generated.running, peak=generated.peak)


def beyond(pricer: Pricer, way: Way) -> float:
    """Seconds from the last token without migration to the last sample ready; below 0 where migration gains more."""
    work, simulator = pricer.work, Simulator(stream_costs(pricer, way), chunk_tokens=CHUNK)
    batch = Batch.even(work.response_N, instances=way.dp, prompt_tokens=work.prompt, n=work.n)
    alone = simulator.run(batch, policy=Policy(r_t=0))
    policies = [Policy(r_t=int(left * work.samples), m=_engines(way, stay)) for left in _LEFT[1:] for stay in _STAY]
    moved = [simulator.run(batch, policy=policy).total_ms for policy in policies if way.dp > 1]
    return (min([alone.total_ms, *moved]) - alone.generation_ms) / 1000


def _engines(way: Way, stay: int) -> int:
    return 1 if stay == 1 else max(1, way.dp // stay)


def stream_costs(pricer: Pricer, way: Way) -> StreamCosts:
    """What the simulator asks for, in milliseconds; decode steps at the samples' mean context."""
    costs, work, model = pricer.costs, pricer.work, pricer.models["actor"]
    times = step_times(costs, model, way, longest=work.row)
    context = work.prompt + float(work.response_N.mean()) / 2
    rows = sorted({1, 2, max(2, way.size // 2), max(2, way.size)})
    points = tuple((count, 1000 * times.seconds(min(count, way.size), context) * _grows(count)) for count in rows)
    prefill = model.layers * costs.prefill(model, tp=way.tp, tokens=CHUNK, length=min(work.length, CHUNK)) / CHUNK
    nbytes = 2 * model.layers * 2 * model.arch.num_kv_heads * model.arch.head_dim
    seconds = costs.message(nbytes * CHUNK / way.tp, across_nodes=costs.cluster.nodes > 1)
    return StreamCosts(
        decode=DecodeCurve(points),
        prefill_ms=1000 * prefill,
        infer_ms={name: 1000 * _reading(pricer, name, way) for name in STREAMED[1:]},
        link=Link(bytes_per_token=nbytes, bytes_per_ms=nbytes * CHUNK / (1000 * seconds)),
        max_rows=way.size,
    )


def _grows(count: int) -> float:
    """A curve's points differ, however flat it is."""
    return 1.0 + 1e-9 * count


def _reading(pricer: Pricer, name: str, way: Way) -> float:
    """Seconds a token of one model."""
    model = pricer.models[CALLS[name].model]
    return sum(stage.forward for stage in pricer.passes(model, way, tokens=CHUNK)) / CHUNK
