"""Errors of a pass, and the picture that goes with them: the grid of the pass with the failing op marked.

    column 0: actor:F0@0 >>critic:B1@1<< actor:B0@0
    column 1: ...

The first rank that fails leaves its reason in the job's store, so that ranks which fail in its wake can name it.
"""

import contextlib

import torch.distributed as dist

from schedules.order import Op, Order


class PipelineError(RuntimeError):
    """An op or a message of a pass failed on this rank; the text names it and shows the grid."""


class MessageTimeout(PipelineError):
    """A message did not come, or was not taken, within the limit."""


def marked_grid(order: Order, *, column: int, op: Op | None, around: int = 12) -> str:
    """All rows of an order, one op of one column marked; long rows are cut to `around` ops on each side of it."""
    place = order.rows[column].index(op) if op in order.rows[column] else 0
    begin, end = max(0, place - around), place + around + 1
    lines = []
    for number, row in enumerate(order.rows):
        names = [f">>{each}<<" if number == column and each == op else str(each) for each in row[begin:end]]
        before, after = "... " if begin else "", " ..." if end < len(row) else ""
        lines.append(f"  column {number}: {before}{' '.join(names)}{after}")
    return "\n".join(lines)


def report_failure(key: str, reason: str) -> str | None:
    """Leave a reason under `key` unless another rank did before; that rank's reason, or None when this is the first.

    Never raises: it runs while another error is under way, and the store may be gone with its rank.
    """
    with contextlib.suppress(Exception):
        store = dist.distributed_c10d._get_default_store()
        found = store.compare_set(key, "", reason).decode()
        return None if found == reason else found
    return None
