"""A small profile whose numbers follow from the sizes, for the tests of what reads profiles."""

from fusedrl.plan.profile_file import Points, Profile, Table, make_table
from fusedrl.plan.sizes import read_model

TOKENS, LENGTHS = (64.0, 256.0), (16.0, 64.0)


def example() -> Profile:
    """Layers, heads and generation of "tiny" at tp 1 and 2; links of two ranks of one node; no Adam."""
    tables = [table for tp in (1, 2) for table in _of_model(tp)]
    sizes = (1024.0, 4096.0)
    tables.append(make_table("message", {(n,): [1e-4 + n / 1e9] for n in sizes}, across_nodes=False))
    for kind in ("all_reduce", "all_gather", "reduce_scatter"):
        points: Points = {(n,): [2e-4 + n / 5e8] for n in sizes}
        tables.append(make_table("collective", points, kind=kind, ranks=2, nodes=1))
    return Profile({"device": "none", "torch": "2.x"}, "float32", {"tiny": read_model("tiny").arch}, tuple(tables))


def _of_model(tp: int) -> list[Table]:
    where = {"model": "tiny", "tp": tp}
    plane = {(t, n): (t * n + 1) * 1e-6 / tp for t in TOKENS for n in LENGTHS}
    line = {(t,): t * 1e-6 / tp for t in TOKENS}
    heads: Points = {at: [x, 2 * x, 3 * x] for at, x in line.items()}  # its W is more than its B: noise
    return [
        make_table("layer", {at: [x, 2 * x, x / 2] for at, x in plane.items()}, **where),
        make_table("embedding", {at: [x, x, 0.0] for at, x in line.items()}, **where),
        make_table("head_lm", heads, **where),
        make_table("head_value", {at: [x, 2 * x, x] for at, x in line.items()}, **where),
        make_table("prefill", {at: [x] for at, x in plane.items()}, **where),
        make_table("decode", {(r, n): [r * n * 1e-6] for r in (1.0, 8.0) for n in LENGTHS}, **where),
        make_table("decode_ends", {(r,): [r * 1e-5] for r in (1.0, 8.0)}, **where),
    ]
