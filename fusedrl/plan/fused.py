"""Actor and critic trained in one fused pipeline: how long a pass takes, by what no order can beat.

    rank r of p holds the actor's stage r and the critic's stage p - 1 - r
    pass >= work of rank r + the sooner of both models' first work there + the shorter of both models' ways out
    pass >= either model's own 1F1B

The published problems' best orders reach this bound, or come within a few percent of it (docs/results.md, schedules),
so a plan takes it times `SLACK`. With p stages of each, a rank holds no more activations than 1F1B's p + 1 in all.
"""

from collections.abc import Sequence

from fusedrl.plan.calls import Way
from fusedrl.plan.price import Price

SLACK = 1.02  # assumed: what searched orders lose to the bound
Times = Sequence[tuple[float, float]]  # F and B of a micro-batch, by stage


def may_fuse(actor: Way, critic: Way) -> bool:
    """Same ranks, and sizes that divide each other, so that one order serves all of them."""
    pairs = ((actor.tp, critic.tp), (actor.pp, critic.pp))
    return actor.mesh == critic.mesh and not actor.zero and not critic.zero and all(max(p) % min(p) == 0 for p in pairs)


def pass_seconds(actor: Times, critic: Times, *, counts: tuple[int, int]) -> float:
    """Of one mini-batch, without messages and optimizer; counts: micro-batches of a replica of each model."""
    alone = [_alone(times, count) for times, count in zip((actor, critic), counts, strict=True)]
    columns = max(len(actor), len(critic))
    bounds = [_column(actor, critic, counts, (r + 0.5) / columns) for r in range(columns)]
    return max(*alone, max(bounds)) if columns == 1 else max(*alone, SLACK * max(bounds))


def _alone(times: Times, count: int) -> float:
    whole = [forward + backward for forward, backward in times]
    return sum(whole) + (count - 1) * max(whole)


def _column(actor: Times, critic: Times, counts: tuple[int, int], place: float) -> float:
    """place: of the column, from 0 to 1 along the actor's pipeline. A stage over several columns is on all of them."""
    stage_a, stage_c = int(place * len(actor)), int((1 - place) * len(critic))
    work = counts[0] * sum(actor[stage_a]) + counts[1] * sum(critic[stage_c])
    heads = [sum(forward for forward, _ in times[:stage]) for times, stage in ((actor, stage_a), (critic, stage_c))]
    tails = [sum(backward for _, backward in times[:stage]) for times, stage in ((actor, stage_a), (critic, stage_c))]
    return work + min(heads) + min(tails)


def fused_parts(actor: Price, critic: Price, *, updates: int) -> dict[str, float]:
    """Seconds by part of a step's fused training."""
    counts = (actor.microbatches, critic.microbatches)
    took = updates * pass_seconds(actor.passes, critic.passes, counts=counts)
    compute = actor.parts["compute"] + critic.parts["compute"]
    rest = {key: actor.parts[key] + critic.parts[key] for key in ("messages", "gradients", "optimizer")}
    return {"compute": compute, "bubble": took - compute, **rest}
