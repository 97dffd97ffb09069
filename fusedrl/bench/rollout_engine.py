"""Decode speed of the built-in engine against Hugging Face generate, same random model, same batch, one thread.

    python -m fusedrl.bench.rollout_engine [--layers 4 --hidden 128 --batch 128 --prompt 16 --new 16] [--json]

`equal` gives every sample the same number of new tokens; `mixed` draws them evenly from 1 to 4 x that, where Hugging
Face runs the whole batch until its longest sample is done. Only wanted tokens count. Seconds are CPU seconds of the one
thread, which other work on the machine does not stretch; best of several runs.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.hf_import import load_hf
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams

# profiler's operator -> part of the table
PARTS = {
    "aten::mm": "matrix products",
    "aten::addmm": "matrix products",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "attention",
    "aten::index_copy_": "cache and rows",
    "aten::_log_softmax": "sampling",
    "aten::cumsum": "sampling",
    "aten::searchsorted": "sampling",
    "aten::exp": "sampling",
}


@dataclass(frozen=True)
class Size:
    layers: int = 4
    hidden: int = 128
    batch: int = 128
    prompt: int = 16
    new: int = 16
    vocab: int = 256
    repeats: int = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in vars(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    arguments = vars(parser.parse_args())
    as_json = arguments.pop("json")
    result = measure(Size(**arguments))
    print(json.dumps(result) if as_json else _table(result))


def measure(size: Size) -> dict[str, Any]:
    """Tokens per second of both, and the engine's time by part, in an own one-rank world."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        theirs = _hugging_face_model(size, folder)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            engine = _engine(size, folder)
            return _compare(size, theirs, engine)
        finally:
            dist.destroy_process_group()


def _compare(size: Size, theirs: Any, engine: MegatronEngine) -> dict[str, Any]:
    torch.manual_seed(0)
    prompts = torch.randint(0, size.vocab, (size.batch, size.prompt))
    result: dict[str, Any] = {}
    for name, lengths in (("equal", [size.new] * size.batch), ("mixed", _mixed_lengths(size))):
        requests = _requests(prompts, lengths)
        ours_s = _best(partial(engine.generate, requests), size.repeats)
        theirs_s = _best(partial(_hugging_face, theirs, prompts, new=max(lengths)), size.repeats)
        result[name] = {"engine_tokens_s": sum(lengths) / ours_s, "hugging_face_tokens_s": sum(lengths) / theirs_s}
    result["time_share"] = _time_share(lambda: engine.generate(_requests(prompts, [size.new] * size.batch)))
    return result


def _mixed_lengths(size: Size) -> list[int]:
    longest = 4 * size.new
    return [1 + i * (longest - 1) // max(1, size.batch - 1) for i in torch.randperm(size.batch).tolist()]


def _requests(prompts: torch.Tensor, lengths: Sequence[int]) -> list[Request]:
    return [
        Request(sample_id=i, prompt=tuple(p), params=replace(SamplingParams(), max_tokens=n))
        for i, (p, n) in enumerate(zip(prompts.tolist(), lengths, strict=True))
    ]


def _hugging_face_model(size: Size, folder: str) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=size.layers,
        hidden_size=size.hidden,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=size.hidden * 11 // 4,
        vocab_size=size.vocab,
        max_position_embeddings=1024,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def _engine(size: Size, folder: str) -> MegatronEngine:
    model = build_model(Architecture.from_folder(folder), build_groups(Layout()))
    load_hf(model, folder)
    return MegatronEngine(model, max_length=size.prompt + 4 * size.new, max_rows=size.batch)


@torch.inference_mode()
def _hugging_face(model: Any, prompts: torch.Tensor, *, new: int) -> None:
    model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        do_sample=True,
        top_k=0,
        max_new_tokens=new,
        min_new_tokens=new,
        eos_token_id=None,
        pad_token_id=0,
    )


def _best(run: Callable[[], Any], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        run()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def _time_share(run: Callable[[], Any]) -> dict[str, float]:
    """Share of the time by part; `elementwise and views` are all other operators, `python` what no operator covers."""
    profiles = [_profiled(run) for _ in range(5)]
    return {"seconds": _best(run, 3), **min(profiles, key=lambda p: p[0])[1]}


def _profiled(run: Callable[[], Any]) -> tuple[float, dict[str, float]]:
    """(seconds, shares) of one run under the profiler, whose clock is the wall's: take the least disturbed run."""
    from torch.profiler import profile

    with profile() as recorded:
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
    shares = dict.fromkeys([*PARTS.values(), "elementwise and views", "python"], 0.0)
    for event in recorded.key_averages():
        if event.key.startswith("aten::"):
            shares[PARTS.get(event.key, "elementwise and views")] += event.self_cpu_time_total / 1e6 / seconds
    shares["python"] = 1 - sum(shares.values())
    return seconds, shares


def _table(result: dict[str, Any]) -> str:
    lines = [f"{'lengths':8} {'engine tok/s':>14} {'Hugging Face tok/s':>20} {'ratio':>7}"]
    for name in ("equal", "mixed"):
        ours, theirs = result[name]["engine_tokens_s"], result[name]["hugging_face_tokens_s"]
        lines.append(f"{name:8} {ours:14,.0f} {theirs:20,.0f} {ours / theirs:7.2f}")
    lines += [
        "",
        f"engine, equal lengths: {result['time_share']['seconds'] * 1e3:.0f} ms, of which (under the profiler)",
    ]
    lines += [f"  {part:24} {share:6.1%}" for part, share in result["time_share"].items() if part != "seconds"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
