"""`python -m schedules problem`: the arguments, and the file that they make."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from schedules.arguments import above_zero, new_file, whole
from schedules.problem import MOST_OPS, MOST_RANKS
from schedules.transformer.attention import CORES
from schedules.transformer.device import DEVICES
from schedules.transformer.fused import MOST_TOKENS, Setup
from schedules.transformer.problem_text import fused_text
from schedules.transformer.shapes import SHAPES

PURPOSE = "write the problem of a LLaMA actor and critic: durations, activations and messages by a cost model"
_LARGEST_SEED = 10**9
_MOST_DEVICES = 4096


def run(args: argparse.Namespace) -> int:
    """Write the problem file."""
    text = fused_text(setup_of(args), out=str(args.out))
    Path(args.out).write_text(text, encoding="utf-8")
    return 0


def setup_of(args: argparse.Namespace) -> Setup:
    """The setup that parsed arguments describe."""
    values: dict[str, Any] = {field.name: getattr(args, field.name) for field in fields(Setup)}
    for key in ("actor_layers", "critic_layers"):
        values[key] = values[key] and tuple(values[key])
    return Setup(**values)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: one for each field of Setup, and --out."""
    parser.set_defaults(run=run)
    for role in ("actor", "critic"):
        parser.add_argument(f"--{role}", choices=SHAPES, required=True)
    parser.add_argument("--ranks", type=whole(1, MOST_RANKS), required=True, metavar="N", help="pipeline columns")
    parser.add_argument("--microbatches", type=whole(1, MOST_OPS), required=True, metavar="M", help="copies share them")
    parser.add_argument("--out", type=new_file, required=True, metavar="FILE.yaml")
    _add_layout(parser)
    _add_lengths(parser)
    _add_costs(parser)


def _add_layout(parser: argparse.ArgumentParser) -> None:
    devices, layers = whole(1, _MOST_DEVICES), whole(1, MOST_RANKS)
    parser.add_argument("--tp", type=devices, default=Setup.tp, metavar="N", help=f"devices of a column ({Setup.tp})")
    for role in ("actor", "critic"):
        parser.add_argument(f"--{role}-tp", type=devices, metavar="N", help="a multiple of --tp: columns to a stage")
        parser.add_argument(f"--{role}-stages", type=layers, metavar="S", help="fewer than fit: copies side by side")
        parser.add_argument(f"--{role}-layers", type=layers, nargs="+", metavar="L", help="of each stage (even)")


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    tokens = whole(1, MOST_TOKENS)
    parser.add_argument(
        "--samples", type=whole(1, MOST_OPS), default=Setup.samples, metavar="N", help="of a micro-batch (1)"
    )
    parser.add_argument("--length", type=tokens, default=Setup.length, metavar="T", help=f"median ({Setup.length})")
    parser.add_argument("--spread", type=float, default=Setup.spread, metavar="S", help="of log-normal lengths (0)")
    parser.add_argument("--longest", type=tokens, metavar="T", help="samples are cut there")
    parser.add_argument("--seed", type=whole(0, _LARGEST_SEED), default=Setup.seed, metavar="N", help="of the lengths")


def _add_costs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=DEVICES, default=Setup.device)
    parser.add_argument("--efficiency", type=above_zero(1.0), metavar="E", help="of the peak, in place of the sheet's")
    parser.add_argument("--attention", choices=CORES, default=Setup.attention)
    parser.add_argument(
        "--no-sequence-parallel", action="store_false", dest="sequence_parallel", help="norms whole on each device"
    )
