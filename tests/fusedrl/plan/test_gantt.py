"""Rows of ranks that do the same, bars that fill the step."""

from itertools import pairwise

from fusedrl.plan.calls import Way
from fusedrl.plan.gantt import rows, svg_gantt, text_gantt
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.planner import Plan
from tests.fusedrl.plan.pricers import tiny_pricer


def plan() -> Plan:
    whole, left, right = Mesh(0, 4), Mesh(0, 2), Mesh(2, 2)
    ways = {call: Way(whole, size=80) for call in ("actor_gen", "actor_logp", "actor_train")}
    ways |= {"critic_train": Way(whole, tp=2, size=80)}
    ways |= {"ref": Way(left, size=80), "reward": Way(right, size=80), "critic_values": Way(right, pp=2, size=80)}
    return Plan("by hand", tiny_pricer("cpu_1x4"), ways, fused=False)


def test_rows_are_cut_where_calls_begin_and_end_and_bars_never_overlap() -> None:
    made = plan()
    found = rows(made)
    assert list(map(str, found)) == ["0-1", "2-3"]
    assert {bar.unit for bar in found[Mesh(0, 2)]} == {"actor_gen", "actor_logp", "ref", "actor_train", "critic_train"}
    for bars in found.values():
        inside = sorted((bar.begin, bar.end) for bar in bars)
        assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(inside))
    assert [bar.moved > 0 for bar in found[Mesh(2, 2)] if bar.unit == "critic_values"] == [True]


def test_text_and_picture_show_every_call() -> None:
    made = plan()
    text, picture = text_gantt(made, width=200), svg_gantt(made)
    assert all(letter in text.splitlines()[1] for letter in "GLRAC")
    assert all(letter in text.splitlines()[2] for letter in "GLWVAC")
    assert picture.count("<title>") == 5 + 6
