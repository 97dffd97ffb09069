"""Plans on two CPU ranks that are acted out in tests, and what they come to."""

from collections.abc import Mapping

from fusedrl.bench.plan_scene import Scene
from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.planner import Plan
from fusedrl.plan.price import Pricer
from tests.fusedrl.plan.pricers import small_work, tiny_pricer

BOTH, LEFT, RIGHT = Mesh(0, 2), Mesh(0, 1), Mesh(1, 1)
ROWS = 160  # tokens of a micro-batch: two of the longest samples


def pricer() -> Pricer:
    return tiny_pricer(work=small_work(samples=8, mini_batches=2))


def plan_of(name: str, way: Way, others: Mapping[str, Way] | None = None, *, fused: bool = False) -> Plan:
    """One way for all calls but those named; generation with half of the samples as rows."""
    ways = dict.fromkeys(CALLS, way) | {"actor_gen": Way(way.mesh, way.tp, way.pp, size=4)} | dict(others or {})
    return Plan(name, pricer(), ways, fused=fused)


def plans() -> list[Plan]:
    """Pipelines fused; models apart, whose copies move; replicas, and tensor-parallel calls after one on one rank."""
    column = Way(BOTH, pp=2, size=ROWS)
    left, right = Way(LEFT, size=ROWS), Way(RIGHT, size=ROWS, recompute=True)
    apart = {
        "actor_logp": Way(BOTH, size=ROWS),
        "critic_values": left,
        "critic_train": right,
        "reward": Way(RIGHT, size=ROWS, resident=False),
    }
    wide = Way(BOTH, tp=2, size=ROWS)
    together = {"actor_gen": Way(BOTH, tp=2, size=4), "actor_logp": right, "ref": wide}
    return [
        plan_of("fused", column, fused=True),
        plan_of("apart", left, apart),
        plan_of("replicas", Way(BOTH, size=ROWS), together),
    ]


def scenes() -> list[Scene]:
    return [Scene.of(plan) for plan in plans()]
