"""Several batches in flight on a generating pipeline against one: the real engine and messages, emulated stage times.

    python -m fusedrl.bench.rollout_pipeline [--stages 2 --rows 8 --batch_ms 20 --row_ms 0] [--json]

Each stage runs its layers of a tiny model, then sleeps until batch_ms + rows x row_ms have passed, as a GPU's decode
step would take. `ideal` counts idle stages alone: B batches on S stages keep min(B, S) of them busy. Every batch has
`rows` samples (`--share`: the batches share them), all of equal length.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.bench.emulated import sharpen_sleep, sleep_until
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.rollout.cache import KeyValueCache
from fusedrl.rollout.decoder import CachedDecoder, Decode, Prefill
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams

LIMIT_S = 120.0


@dataclass(frozen=True)
class Case:
    stages: int = 2
    rows: int = 8
    new: int = 24
    batch_ms: float = 20.0
    row_ms: float = 0.0
    repeats: int = 3


class SlowDecoder:
    """A stage's decoder that takes as long as it is told."""

    def __init__(self, decoder: CachedDecoder, case: Case) -> None:
        self._decoder, self._case = decoder, case

    def run(self, part: Prefill | Decode, hidden_NH: Tensor | None, *, cache: KeyValueCache) -> Tensor:
        start = time.perf_counter_ns()
        output = self._decoder.run(part, hidden_NH, cache=cache)
        rows = part.tokens if isinstance(part, Decode) else part.lengths_P.numel()
        sleep_until(start + int((self._case.batch_ms + rows * self._case.row_ms) * 1e6))
        return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in asdict(Case()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--share", action="store_true", help="all batches together have `rows` samples")
    parser.add_argument("--json", action="store_true")
    arguments = vars(parser.parse_args())
    as_json, share = arguments.pop("json"), arguments.pop("share")
    result = measure(Case(**arguments), share=share)
    print(json.dumps(result) if as_json else _table(result))


def measure(case: Case, *, share: bool = False) -> list[dict[str, float]]:
    """Tokens per second with 1, `stages` and `stages` + 1 batches in flight."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        queue = context.Queue()
        arguments = [(rank, case, share, str(Path(folder) / "store"), queue) for rank in range(case.stages)]
        ranks: list[Any] = [context.Process(target=_rank, args=each) for each in arguments]
        for rank in ranks:
            rank.start()
        try:
            found: list[dict[str, float]] = queue.get(timeout=LIMIT_S)
        finally:
            for rank in ranks:
                rank.join(10)
                rank.kill()
    return found


def _rank(rank: int, case: Case, share: bool, store: str, queue: Any) -> None:
    torch.set_num_threads(1)
    sharpen_sleep()
    dist.init_process_group("gloo", store=dist.FileStore(store, case.stages), rank=rank, world_size=case.stages)
    try:
        found = figures(case, share=share)
        if rank == 0:
            queue.put(found)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def figures(case: Case, *, share: bool) -> list[dict[str, float]]:
    """What `measure` returns, for the ranks that are the stages; all of them call it."""
    model = build_model(_architecture(case.stages), build_groups(Layout(pp=case.stages)))
    found = [_tokens_s(model, case, batches, share=share) for batches in (1, case.stages, case.stages + 1)]
    return [{**each, "ratio": each["tokens_s"] / found[0]["tokens_s"]} for each in found]


def _tokens_s(model: Any, case: Case, batches: int, *, share: bool) -> dict[str, float]:
    rows = case.rows if share else case.rows * batches
    engine = MegatronEngine(model, max_length=case.new + 4, max_rows=rows, batches=batches, timeout_s=LIMIT_S)
    engine._decoder = SlowDecoder(engine._decoder, case)  # type: ignore[assignment]
    prompts: list[tuple[int, ...]] = [(1 + i, 2) for i in range(rows)]
    seconds = []
    for _ in range(case.repeats):
        dist.barrier()
        start = time.perf_counter()
        engine.generate(samples_of(prompts, n=1, params=SamplingParams(max_tokens=case.new)))
        seconds.append(time.perf_counter() - start)
    return {"batches": batches, "tokens_s": rows * case.new / min(seconds), "ideal": float(min(batches, case.stages))}


def _architecture(layers: int) -> Architecture:
    return Architecture(
        family="llama",
        hidden_size=32,
        num_layers=layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        ffn_hidden_size=48,
        vocab_size=256,
        max_position=256,
    )


def _table(result: list[dict[str, float]]) -> str:
    lines = [f"{'batches in flight':>18} {'tok/s':>9} {'ratio':>7} {'ideal':>7}"]
    lines += [f"{r['batches']:18.0f} {r['tokens_s']:9,.0f} {r['ratio']:7.2f} {r['ideal']:7.2f}" for r in result]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
