"""What the ranks do in the tests of teams."""

from typing import Any

import torch
import torch.distributed as dist

from fusedrl.parallel import team
from fusedrl.parallel.comm import all_gather_object, broadcast_object
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.rollout.exchange import Exchange
from fusedrl.rollout.handover import gather_shards
from fusedrl.rollout.reshard import Piece, Shard, Span


def two_teams() -> dict[str, Any]:
    rank = dist.get_rank()
    before = all_gather_object(rank)
    teams = [team.make_team([0, 2]), team.make_team([3, 1])]
    groups = [build_groups(Layout(dp=2), ranks=each.ranks) for each in teams]
    mine = teams[rank % 2]
    shard = Shard(str(rank), "w", (1,), 0, (Span(0, 0, 1),), "float32")
    with team.on(mine):
        found = {
            "gathered": all_gather_object(rank),
            "told": broadcast_object(rank),
            "leads": team.leads(),
            "place": team.current().place(),
            "size": team.current().size,
            "group": dist.get_process_group_ranks(groups[rank % 2].dp),
            "other": groups[1 - rank % 2].dp,
            "described": [[each.name for each in of_rank] for of_rank in gather_shards([shard])],
            "moved": _moved(mine.ranks[0], mine.ranks[1]),
        }
    return found | {"before": before, "after": all_gather_object(rank), "crossed": _moved(0, 3)}


def _moved(source: int, target: int) -> float | None:
    """What the target got of a number that the source had: its rank + 1."""
    tensors = {"w": torch.full((1,), dist.get_rank() + 1.0)}
    into = {"w": torch.zeros(1)}
    piece = Piece(source, target, "w", "w", 0, 0, 0, 1, 1, "float32")
    Exchange(tensors, into).run([piece])
    return float(into["w"]) if dist.get_rank() == target else None


def outside() -> str:
    only = team.make_team([0])
    try:
        with team.on(only):
            return ""
    except ValueError as error:
        return str(error)


def refused(*, chosen: list[int]) -> str:
    try:
        team.make_team(chosen)
    except ValueError as error:
        return str(error)
    return ""
