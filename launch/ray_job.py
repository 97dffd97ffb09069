"""Ranks as Ray actors on an existing cluster: `python launch/ray_job.py --ranks 8 fusedrl.ppo experiment=arithmetic`.

    --address auto              the cluster's (default: the one of RAY_ADDRESS, or of this machine)
    --gpus-per-rank 1           0 on CPU ranks (default: 1 where the cluster has GPUs)
    --cpus-per-rank 1
    --strategy PACK             how the placement group spreads: PACK, SPREAD, STRICT_PACK, STRICT_SPREAD

Each actor holds one bundle of the placement group and runs one rank as a process of its own, with torch's names of its
place. Ranks of one node are neighbours. SIGTERM and SIGUSR1 go on to the ranks. The exit code is that of the first rank
that failed; the others are then ended. The checkout and the Python environment (with ray in it) lie at the same place
on all nodes; needs the extra `ray`.
"""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BAD_ARGUMENTS = 2
GRACE_S = 30.0  # for ranks that are to end before they are killed
PR_SET_PDEATHSIG = 1  # of Linux's prctl
FORWARDED = (signal.SIGTERM, signal.SIGUSR1)


@dataclass(frozen=True)
class Seat:
    """Where an actor is. gpus: Ray's numbers of those that it holds."""

    node: str
    address: str
    gpus: tuple[str, ...] = ()


def fail(text: str) -> None:
    print(f"ray_job.py: {text}", file=sys.stderr, flush=True)
    raise SystemExit(BAD_ARGUMENTS)


def in_order(seats: Sequence[Seat]) -> list[int]:
    """Which actor is rank 0, 1, ...: the first actor's node first, ranks of a node together."""
    nodes = list(dict.fromkeys(seat.node for seat in seats))
    return sorted(range(len(seats)), key=lambda actor: (nodes.index(seats[actor].node), actor))


def environments(seats: Sequence[Seat], *, port: int, threads: int) -> list[dict[str, str]]:
    """By rank, of seats in the order of ranks. A rank sees all GPUs of its node's ranks, and takes its LOCAL_RANK's."""
    found = []
    for rank, seat in enumerate(seats):
        neighbours = [each for each in range(len(seats)) if seats[each].node == seat.node]
        gpus = [gpu for each in neighbours for gpu in seats[each].gpus]
        found.append(
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(seats)),
                "LOCAL_RANK": str(neighbours.index(rank)),
                "LOCAL_WORLD_SIZE": str(len(neighbours)),
                "MASTER_ADDR": seats[0].address,
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": str(threads),
                "CUDA_VISIBLE_DEVICES": ",".join(gpus),
                "FUSEDRL_LAUNCHER": "Ray",
                "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            }
        )
    return found


class Rank:
    """The actor: a process on its node. `run` and `send` are called beside each other."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.asked: list[int] = []

    def __repr__(self) -> str:  # in front of each line that it prints
        return "rank"

    def seat(self) -> tuple[str, str, tuple[str, ...]]:
        import ray

        context = ray.get_runtime_context()
        gpus = tuple(str(each) for each in context.get_accelerator_ids().get("GPU", []))
        return context.get_node_id(), ray.util.get_node_ip_address(), gpus

    def free_port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def run(self, command: Sequence[str], environment: dict[str, str], folder: str) -> int:
        """Its exit code, 128 + N where signal N ended it."""
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, **environment},
            cwd=folder,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # a killed actor leaves no rank behind
        )
        for number in self.asked:
            self.process.send_signal(number)
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def send(self, number: int) -> None:
        """A signal, to the process that runs or that will."""
        self.asked.append(number)
        if self.process is not None:
            self.process.send_signal(number)


class Job:
    """All ranks; the first failure ends the others."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.actors: list[Any] = []

    def __enter__(self) -> "Job":
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        cpus, gpus = self.options.cpus_per_rank, self.options.gpus_per_rank
        bundle = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
        self.group = placement_group([bundle] * self.options.ranks, strategy=self.options.strategy)
        if not self.group.wait(self.options.wait):
            fail(
                f"the cluster gave no {self.options.ranks} x {bundle} within {self.options.wait:g} s (--wait); it has "
                f"{ray.available_resources()} free"
            )
        actor, needs = ray.remote(Rank), {"num_cpus": cpus, "num_gpus": gpus, "max_concurrency": 2}
        for index in range(self.options.ranks):
            place = PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=index)
            self.actors.append(actor.options(scheduling_strategy=place, **needs).remote())
        return self

    def __exit__(self, *error: object) -> None:
        import ray
        from ray.util.placement_group import remove_placement_group

        for actor in self.actors:
            ray.kill(actor)
        remove_placement_group(self.group)

    def run(self, command: Sequence[str]) -> int:
        import ray

        limit = self.options.wait
        try:
            seats = [Seat(*each) for each in ray.get([actor.seat.remote() for actor in self.actors], timeout=limit)]
            order = in_order(seats)
            self.actors = [self.actors[each] for each in order]
            port = ray.get(self.actors[0].free_port.remote(), timeout=limit)
        except ray.exceptions.GetTimeoutError:
            fail(f"the cluster started no {self.options.ranks} actors within {limit:g} s (--wait)")
        given = environments(
            [seats[each] for each in order], port=port, threads=max(1, int(self.options.cpus_per_rank))
        )
        for number in FORWARDED:
            signal.signal(number, lambda number, frame: self.send(number))
        folder = os.getcwd()
        waiting = [actor.run.remote(command, each, folder) for actor, each in zip(self.actors, given, strict=True)]
        return self._first_failure(waiting)

    def send(self, number: int) -> None:
        for actor in self.actors:
            actor.send.remote(number)

    def _first_failure(self, waiting: list[Any]) -> int:
        """0 where all ranks end well."""
        import ray

        failed = 0
        while waiting:
            done, waiting = ray.wait(waiting, timeout=GRACE_S if failed else None)
            if not done:
                break  # the actors, and with them their ranks, are killed
            code = ray.get(done[0])
            if code and not failed:
                failed = code
                self.send(signal.SIGTERM)
        return failed


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python launch/ray_job.py", description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, required=True, help="how many, on all nodes together")
    parser.add_argument("--address", default="auto", help="of the cluster (auto)")
    parser.add_argument("--gpus-per-rank", type=int, help="default: 1 where the cluster has GPUs, else 0")
    parser.add_argument("--cpus-per-rank", type=float, default=1, help="also the threads of a rank (1)")
    parser.add_argument("--strategy", default="PACK", choices=["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
    parser.add_argument(
        "--wait", type=float, default=600.0, help="seconds to wait for the cluster and its actors (600)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="MODULE key=value ...")
    options = parser.parse_args(argv)
    if options.ranks < 1:
        fail(f"--ranks {options.ranks}: at least 1 is needed")
    if not options.command or "=" in options.command[0]:
        fail("the module to run is missing, as in: --ranks 8 fusedrl.ppo experiment=arithmetic")
    return options, options.command


def main(argv: Sequence[str]) -> int:
    options, command = parse(argv)
    try:
        import ray
    except ImportError:
        fail(f"no ray in {sys.executable}: pip install '.[ray]'")
    try:
        ray.init(address=options.address, log_to_driver=True)
    except ConnectionError as error:
        fail(f"no Ray cluster at --address {options.address} ({error}); start one: ray start --head")
    if options.gpus_per_rank is None:
        options.gpus_per_rank = 1 if ray.cluster_resources().get("GPU") else 0
    with Job(options) as job:
        return job.run(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
