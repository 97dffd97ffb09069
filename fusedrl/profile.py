"""What this machine takes for the parts of a step: `torchrun --nproc-per-node 2 -m fusedrl.profile model=FOLDER`.

    python -m fusedrl.profile model=tiny                            one rank
    torchrun --nproc-per-node 8 -m fusedrl.profile model=actor,critic out=h100.yaml

F, B and W of embedding, layer and head, prefill and decode steps, messages and collectives, each by size and tensor
parallel size: medians of `repeats`, written as YAML for fusedrl.plan. `model`: checkpoint folders, or sheets of
configs/plan/model; a few layers with random weights are built, whatever the depth. Everything runs on CPU ranks; on
GPUs it has not run yet.
"""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusedrl.bench.arguments import ArgumentError, one_of, read
from fusedrl.bench.job import stop
from fusedrl.plan.sizes import ModelSizes, read_model
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import is_first_rank, overlap_tensor_parallel, say

if TYPE_CHECKING:
    import torch

    from fusedrl.plan.profile_file import Profile, Table

PROGRAM = "fusedrl.profile"
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Options:
    """Sizes left out are taken by device. tp: by default all that divide the ranks and the model."""

    model: tuple[str, ...] = ("tiny",)
    out: Path = Path("profile.yaml")
    tp: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    layers: int = 3
    repeats: int = 10
    dtype: str | None = None
    sequence_parallel: bool = False
    timeout_s: float = 600.0


SMALL = Options(tokens=(128, 512), lengths=(32, 128), rows=(1, 4, 16), contexts=(32, 128), bytes=(1 << 10, 1 << 20))
LARGE = Options(
    tokens=(1024, 4096, 16384),
    lengths=(512, 1024),
    rows=(1, 8, 32, 128),
    contexts=(512, 2048),
    bytes=(1 << 12, 1 << 20, 1 << 26),
)
_BY_DEVICE = ("tokens", "lengths", "rows", "contexts", "bytes")


def problems(options: Options, models: Sequence[ModelSizes], *, world: int) -> list[str]:
    """What is wrong, a line each."""
    found = [f"{key}={value}: must be above 0" for key in _BY_DEVICE for value in getattr(options, key) if value < 1]
    if options.repeats < 1:
        found.append(f"repeats={options.repeats}: must be at least 1")
    if options.layers < 2:
        found.append(f"layers={options.layers}: decode steps are told apart by layers; take 2 or more")
    found += [f"tp={tp} does not divide the {world} ranks" for tp in options.tp if tp < 1 or world % tp]
    for model in models:
        fitting = model.tensor_sizes(world)
        found += [f"tp={tp} does not divide {model.name}; take {fitting}" for tp in options.tp if tp not in fitting]
    for tokens in options.tokens:
        for length in options.lengths:
            if length > 0 and tokens % length:
                found.append(f"tokens={tokens} is no multiple of lengths={length}: rows are whole")
    return found


def distinct(models: Sequence[ModelSizes]) -> list[ModelSizes]:
    """Those whose layers differ: an actor and a critic of the same sizes are measured once."""
    from fusedrl.plan.measured import layer_sizes

    found = {layer_sizes(model.arch): model for model in reversed(models)}
    if len({model.name for model in found.values()}) < len(found):
        raise ArgumentError(
            f"model={','.join(each.name for each in models)}: name folders of different sizes differently"
        )
    return list(found.values())[::-1]


def by_device(options: Options, *, gpu: bool) -> dict[str, Any]:
    """The sizes, and the dtype, that stand in for those that are not given."""
    usual = LARGE if gpu else SMALL
    sizes = {key: getattr(options, key) or getattr(usual, key) for key in _BY_DEVICE}
    return sizes | {"dtype": options.dtype or DTYPES[gpu]}


def widths(options: Options, model: ModelSizes, *, world: int) -> tuple[int, ...]:
    """Tensor parallel sizes to measure a model at."""
    return options.tp or tuple(tp for tp in model.tensor_sizes(world) if world % tp == 0)


def measure(options: Options, models: Sequence[ModelSizes], *, device: "torch.device") -> "Profile":
    """The profile of the joined world, the same on all ranks. A collective."""
    import torch.distributed as dist

    from fusedrl.plan.measure_links import link_tables
    from fusedrl.plan.profile_file import Profile

    tables: list[Table] = []
    world = dist.get_world_size()
    for model in models:
        for tp in widths(options, model, world=world):
            say(f"{model.name}: tp={tp}")
            tables += model_tables(options, model, tp=tp, device=device)
    say("messages and collectives")
    tables += link_tables(options.bytes, device=device, repeats=options.repeats)
    assert options.dtype is not None
    about = heading(options, device=device, world=world)
    named = {model.name: model.arch for model in models}
    return Profile(about, options.dtype, named, tuple(joined_tables(tables)))


def model_tables(options: Options, model: ModelSizes, *, tp: int, device: "torch.device") -> "Iterator[Table]":
    """All that is measured of one model at one tensor parallel size. A collective of the world."""
    from fusedrl.plan.measure_model import measured_model

    yield from measured_model(
        model,
        tp=tp,
        tokens=options.tokens,
        lengths=options.lengths,
        rows=options.rows,
        contexts=options.contexts,
        layers=options.layers,
        repeats=options.repeats,
        dtype=str(options.dtype),
        sequence_parallel=options.sequence_parallel,
    )


def joined_tables(tables: "Sequence[Table]") -> "Iterator[Table]":
    """Those of equal kind and circumstances as one: Adam's step is measured once for each model and size."""
    from fusedrl.plan.grid import Grid
    from fusedrl.plan.profile_file import Table

    merged: dict[tuple[Any, ...], Table] = {}
    for table in tables:
        key = (table.of, table.how)
        if key in merged:
            table = Table(table.of, table.how, Grid.of({**merged[key].grid.points, **table.grid.points}))
        merged[key] = table
    yield from merged.values()


def parts_of_whole(profile: "Profile") -> "Iterator[str]":
    """A line for each model and size: what the parts' times add up to, as a share of the whole model's."""
    for whole in profile.of("whole"):
        ((at, times),) = whole.grid.points.items()
        where = {key: whole.get(key) for key in ("model", "tp")}
        tables = {of: profile.find(of, **where) for of in ("embedding", "layer", "head_lm")}
        sums = [0.0, 0.0]
        for of, table in tables.items():
            assert table is not None
            part = table.grid(*at) if of == "layer" else table.grid(at[0])
            sums = [
                total + (whole.get("layers") if of == "layer" else 1) * x for total, x in zip(sums, part, strict=False)
            ]
        told = ", ".join(f"{kind} {total / x:.2f}" for kind, total, x in zip("FB", sums, times, strict=True))
        yield f"{where['model']}, tp={where['tp']}: parts add up to {told} of the whole model"


def heading(options: Options, *, device: "torch.device", world: int) -> dict[str, Any]:
    """What the numbers depend on."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": name if device.type == "cuda" else f"CPU ({name}), {torch.get_num_threads()} threads a rank",
        "ranks": world,
        "repeats": options.repeats,
        "layers": options.layers,
        "sequence_parallel": options.sequence_parallel,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "megatron-core": version("megatron-core"),
    }


def prepared(options: Options, *, world: int, gpu: bool) -> tuple[Options, list[ModelSizes]]:
    """With all sizes, and the models. Raises ValueError for what is wrong, before any process group exists."""
    one_of(options.dtype or DTYPES[0], DTYPES, key="dtype")
    models = distinct([read_model(name) for name in options.model])
    options = replace(options, **by_device(options, gpu=gpu))
    if found := problems(options, models, world=world):
        raise ArgumentError("; ".join(found))
    return options, models


def run(options: Options, models: Sequence[ModelSizes]) -> None:
    """Measure on the ranks of the job and write the file."""
    from fusedrl.checkpoint.atomic import write_file
    from fusedrl.plan.profile_file import profile_text
    from fusedrl.trainers.world import joined

    with joined(timeout_s=options.timeout_s) as device:
        profile = measure(options, models, device=device)
        if is_first_rank():
            write_file(options.out, profile_text(profile))
    for line in parts_of_whole(profile):
        say(line)
    say(f"{len(profile.tables)} tables in {options.out}")


def main() -> None:
    hush()
    rank, world = (int(os.environ.get(name, usual)) for name, usual in (("RANK", "0"), ("WORLD_SIZE", "1")))
    try:
        options = read(Options, sys.argv[1:])
        overlap_tensor_parallel(largest_tp=max(options.tp, default=2))
        import torch

        options, models = prepared(options, world=world, gpu=torch.cuda.is_available())
    except ValueError as error:  # ArgumentError is one; or a model that cannot be read
        stop(PROGRAM, str(error), rank=rank)
    run(options, models)


if __name__ == "__main__":
    main()
