"""What the ranks do in the tests of fusedrl.parallel."""

from typing import Any

import torch
import torch.distributed as dist

from fusedrl.parallel import comm
from fusedrl.parallel.groups import build_groups, groups_of_stage
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.pipeline_view import plain, stage_ranks
from fusedrl.parallel.placement import place_stages


def members_of_groups(layout: tuple[int, ...], *, reverse: bool, placement: str | None = None) -> dict[str, Any]:
    """Global ranks of each of this rank's groups, its stage, and the ranks of all stages."""
    columns = None if placement is None else place_stages(layout[1], shape=placement, reverse=reverse)
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse, placement=columns)
    found = {
        name: dist.get_process_group_ranks(group)
        for name in ("tp", "dp", "mp", "embd", "cp", "dp_cp", "intra_dist_opt")
        if (group := getattr(groups, name)) is not None
    }
    return found | {"stage": groups.pp.rank(), "stages": stage_ranks(groups.pp)}


def sum_over(layout: tuple[int, int, int], *, member: str, reverse: bool) -> int:
    """Sum of ranks over one of the groups: communicators work, reversed views included."""
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    value = torch.tensor([dist.get_rank()])
    dist.all_reduce(value, group=plain(getattr(groups, member)))
    return int(value)


def two_collections_share_no_communicator() -> bool:
    layout = Layout(pp=dist.get_world_size())
    first, second = build_groups(layout), build_groups(layout, reverse_pipeline=True)
    return plain(first.pp) is not plain(second.pp)


def stage_view(*, reverse: bool) -> dict[str, Any]:
    """What a stage's module sees of a pipeline that holds twice as many stages as ranks."""
    groups = build_groups(Layout(pp=dist.get_world_size()), reverse_pipeline=reverse)
    view = groups_of_stage(groups, stage=3, stages=4)
    return {
        "rank": view.pp.rank(),
        "size": view.pp.size(),
        "group": plain(view.pp) is plain(groups.pp),
        "others": (view.tp, view.dp) == (groups.tp, groups.dp),
        "untouched": groups.pp.size() == dist.get_world_size(),
    }


def wrong_world(layout: tuple[int, int, int]) -> str:
    try:
        build_groups(Layout(*layout), key="actor")
    except ValueError as error:
        return str(error)
    return ""


def gather_bytes(payloads: list[bytes]) -> list[bytes]:
    return comm.all_gather_bytes(payloads[dist.get_rank()])


def broadcast_from(src: int, *, payload: bytes) -> bytes:
    return comm.broadcast_bytes(payload if dist.get_rank() == src else None, src=src)


def gather_objects() -> list[Any]:
    return comm.all_gather_object({"rank": dist.get_rank(), "list": [1.5, None, "x"], 7: b"\0"})
