"""Is this machine fit for a run: `python -m fusedrl.doctor`, or the same under a launcher, for all its ranks.

    python -m fusedrl.doctor                             this node
    torchrun --nproc-per-node 8 -m fusedrl.doctor        each rank looks at its own node, then they meet
    srun ... bash launch/rank_env.sh python -m fusedrl.doctor --ranks       the places of ranks and their meeting alone

A line a topic: ok, warn (slow, or wrong under some settings) or bad (a run would fail), the last two with what to
change. Exit code: 1 where something is bad on any rank, else 0.
"""

import argparse
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fusedrl.machine.devices import device_findings, has_gpu
from fusedrl.machine.finding import Finding, is_fit
from fusedrl.machine.limits import limit_findings
from fusedrl.machine.meeting import meet
from fusedrl.machine.network import network_findings
from fusedrl.machine.place import Place, place_findings, place_of
from fusedrl.machine.versions import version_findings


def look(environment: Mapping[str, str], *, ranks_only: bool = False) -> list[Finding]:
    """All that can be seen without other ranks."""
    placed = place_findings(environment)
    if not is_fit(placed):
        return placed if ranks_only else [*placed, *_node(environment, Place())]
    place = place_of(environment)
    found = [*placed, *network_findings(environment, place)]
    return found if ranks_only else [*found, *_node(environment, place)]


def _node(environment: Mapping[str, str], place: Place) -> list[Finding]:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    return [
        *device_findings(place, visible=visible),
        *limit_findings(environment, place),
        *version_findings(gpu=has_gpu()),
    ]


def report(environment: Mapping[str, str], *, ranks_only: bool, timeout_s: float) -> list[dict[str, Any]]:
    """What each rank found, by rank: {"rank", "host", "findings"}; this one's alone where they could not meet."""
    found = look(environment, ranks_only=ranks_only)
    mine = {"rank": 0, "host": socket.gethostname(), "findings": [asdict(each) for each in found]}
    if not is_fit([each for each in found if each.topic == "ranks"]):
        return [mine]
    place = place_of(environment)
    mine["rank"] = place.rank
    if place.world == 1:
        return [mine]
    met, everyone = meet(mine, place, timeout_s=timeout_s)
    everyone[0]["findings"].append(asdict(met))
    return everyone


def lines(ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first rank's findings, then of each other rank those that are not ok and that the first one has not."""
    first, *others = ranks
    shown = [_line(each) for each in first["findings"]]
    for rank in others:
        news = [each for each in rank["findings"] if each["level"] != "ok" and each not in first["findings"]]
        shown += [f"{_line(each)}   [rank {rank['rank']} on {rank['host']}]" for each in news]
    return shown


def _line(finding: Mapping[str, str]) -> str:
    told = f"{finding['level']:<4}  {finding['topic']:<20} {finding['text']}"
    return f"{told}\n{'':<6}{'':<21}-> {finding['change']}" if finding["change"] else told


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fusedrl.doctor", description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", action="store_true", help="look at the places of ranks and let them meet, no more")
    parser.add_argument("--json", action="store_true", help="print one object: ok, ranks with their findings")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a rank waits for the others (60)")
    options = parser.parse_args(argv)
    ranks = report(os.environ, ranks_only=options.ranks, timeout_s=options.timeout)
    found = [Finding(**each) for rank in ranks for each in rank["findings"]]
    speaks = ranks[0]["rank"] == 0 and os.environ.get("RANK", "0") == "0"
    if speaks or len(ranks) == 1:
        print(
            json.dumps({"ok": is_fit(found), "ranks": ranks}) if options.json else "\n".join(lines(ranks)), flush=True
        )
    return 0 if is_fit(found) else 1


if __name__ == "__main__":
    sys.exit(main())
