"""The file of a fused problem: a header that says how it came about, then the problem as YAML."""

import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import fields

from schedules.problem_file import problem_text
from schedules.transformer.fused import Setup, Side, device_of, fused_problem, lengths_of, sides_of

_WIDTH = 116  # of a header's line, after "# "
_CORES = {
    "flash": "causal flash attention",
    "recomputed": "unfused attention, recomputed for the backward (selective recomputation)",
    "stored": "unfused attention, its softmax kept",
}


def fused_text(setup: Setup, *, out: str) -> str:
    """Header and problem. The header's command writes the same file again, to `out`."""
    lines = [f"# {line}" if line else "#" for line in _header(setup, out)]
    return "\n".join(lines) + "\n" + problem_text(fused_problem(setup))


def command(setup: Setup, *, out: str) -> list[str]:
    """The words of the command line that makes this setup; what has its default is left out."""
    words = ["python", "-m", "schedules", "problem"]
    for field in fields(setup):
        value = getattr(setup, field.name)
        if value == field.default:
            continue
        flag = "--" + field.name.replace("_", "-")
        if value is False:
            words.append("--no" + flag[1:])
        else:
            words += [flag, *(str(item) for item in (value if isinstance(value, tuple) else [value]))]
    return [*words, "--out", out]


def _header(setup: Setup, out: str) -> Iterator[str]:
    actor, critic = sides_of(setup)
    yield f"{setup.actor} actor and {setup.critic} critic on {setup.ranks} pipeline columns of {setup.tp} devices."
    yield "Times in ms, memory in GiB of one device: estimated by formula (docs/schedules.md), not measured. Written by"
    yield ""
    yield "    " + shlex.join(command(setup, out=out))
    yield ""
    for what, text in (
        ("device", _device(setup)),
        ("micro-batches", _microbatches(setup)),
        ("actor", f"{_side(actor)}, language-model head on the last"),
        ("critic", f"{_side(critic)}, value head without cost"),
        ("times", f"FLOPs / (tp x peak x efficiency); {_CORES[setup.attention]}"),
        ("activation", f"held until the backward, bf16, {_parallel(setup)}, nothing else recomputed"),
        ("comm", "the largest message of either model, between nodes"),
    ):
        yield from textwrap.wrap(f"{what:<14} {text}", _WIDTH, subsequent_indent=" " * 15)


def _device(setup: Setup) -> str:
    device = device_of(setup)
    return (
        f"{device.name}: {device.peak / 1e12:g} TFLOP/s dense bf16, {device.efficiency:.4g} of it reached (assumed); "
        f"messages {device.bandwidth / 1e9:g} GB/s after {device.latency * 1e6:g} us"
    )


def _microbatches(setup: Setup) -> str:
    samples = f"{setup.samples} sample{'s' * (setup.samples > 1)}"
    if setup.spread == 0:
        return f"{samples} of {setup.length} tokens"
    tokens = [sum(row) for row in lengths_of(setup)]
    cut = "" if setup.longest is None else f", at most {setup.longest}"
    return (
        f"{samples} of log-normal length, median {setup.length}, spread {setup.spread:g}{cut}, seed {setup.seed}: "
        f"{min(tokens)} to {max(tokens)} tokens, packed"
    )


def _side(side: Side) -> str:
    layers = side.part.layers
    count = f"{side.copies} copies, each " if side.copies > 1 else ""
    each = str(layers[0]) if len(set(layers)) == 1 else " ".join(map(str, layers))
    wide = f" on {side.columns} columns" if side.columns > 1 else ""
    return f"{count}{side.stages} stages{wide} of {each} layers, tp {side.part.tp}"


def _parallel(setup: Setup) -> str:
    return "sequence parallel" if setup.sequence_parallel else "norms and inputs whole on each device"
