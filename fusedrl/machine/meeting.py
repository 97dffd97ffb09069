"""The ranks of a job meet once: a sum over all of them, on the devices that a run would use, and what each one found.

with one all_reduce of rank + 1 the answer is world * (world + 1) / 2 on every rank
"""

import time
from typing import Any

from fusedrl.machine.finding import Finding, bad
from fusedrl.machine.place import Place

TAKEN = "set MASTER_PORT to a port that is free on rank 0's node"
HINT = "look at the lines `master` and `gloo binds` of each node, and at its firewall"


def meet(mine: dict[str, Any], place: Place, *, timeout_s: float) -> tuple[Finding, list[dict[str, Any]]]:
    """(whether they met, what each rank found, by rank); alone with its own where they did not.

    Whatever goes wrong between ranks is what this asks for, so any error becomes a line.
    """
    began = time.monotonic()
    try:
        total, everyone = _sum_and_gather(mine, place, timeout_s=timeout_s)
    except Exception as error:
        text = f"rank {place.rank} of {place.world} did not meet the others: {str(error).splitlines()[0]}"
        return bad("meeting", text, change=TAKEN if "EADDRINUSE" in text else HINT), [mine]
    expected = place.world * (place.world + 1) / 2
    if total != expected:
        return bad("meeting", f"the sum over ranks is {total}, {expected} was expected", change=HINT), everyone
    count = len({each["host"] for each in everyone})
    hosts, took = f"{count} host{'s' if count > 1 else ''}", f"{time.monotonic() - began:.1f} s"
    return Finding("meeting", f"{place.world} ranks on {hosts} met and summed right, in {took}"), everyone


def _sum_and_gather(mine: dict[str, Any], place: Place, *, timeout_s: float) -> tuple[float, list[dict[str, Any]]]:
    import torch
    import torch.distributed as dist

    from fusedrl.parallel.comm import all_gather_object
    from fusedrl.trainers.world import joined

    with joined(timeout_s=timeout_s) as device:
        value = torch.tensor([place.rank + 1.0], device=device)
        dist.all_reduce(value)
        return float(value), all_gather_object(mine)
