"""Random spaces of plans for tests: costs in 64ths and bytes whole, so that all sums are exact in any order."""

import numpy as np

from fusedrl.plan.meshes import meshes
from fusedrl.plan.search.space import Move, Space, Unit

NAMES = ("gen", "actor_inf", "ref", "reward", "critic_inf", "actor_train", "critic_train")
PHASE = (0, 1, 1, 1, 1, 2, 2)
MOVES = ((0, 5), (1, 5), (4, 6))  # (unit, source)


def random_space(seed: int, *, ways: int, room: float = 76.0) -> Space:
    """Seven calls on 8 ranks, up to `ways` ways each; a room of 76 fits a part of the choices."""
    random = np.random.default_rng(seed)
    units = tuple(
        _unit(name, phase, random, int(random.integers(1, ways + 1))) for name, phase in zip(NAMES, PHASE, strict=True)
    )
    moves = tuple(
        Move(
            u,
            s,
            random.integers(0, 128, (units[s].ways, units[u].ways)) / 64,
            _whole(random, 20, (units[s].ways, units[u].ways)),
        )
        for u, s in MOVES
    )
    return Space(8, room, units, moves)


def _unit(name: str, phase: int, random: np.random.Generator, ways: int) -> Unit:
    all_meshes = meshes(nodes=1, devices=8)
    some = [all_meshes[i] for i in random.integers(0, 7, ways)]  # of 2 ranks or more
    work = random.integers(64, 640, ways) / 64
    return Unit(
        name,
        phase,
        work * np.array([8 // mesh.count for mesh in some]) ** random.integers(0, 2),
        np.array([mesh.first for mesh in some]),
        np.array([mesh.end for mesh in some]),
        _whole(random, 25, (ways, 3)),
        _whole(random, 30, (ways,)),
    )


def _whole(random: np.random.Generator, most: int, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, most, shape).astype(float)
