"""The Gantt chart: the title states the cost model, hues tell models apart, the file is reproducible."""

import colorsys

import pytest

from schedules.builders import gpipe
from schedules.draw.gantt import color_of, save_gantt, title
from schedules.order import Op
from schedules.problem import Model, Problem
from schedules.replay import replay

PROBLEM = Problem(
    2,
    (Model("actor", [0, 1], 2, [1, 2], 3, backward_weight=1, activation=2), Model("critic", [1, 0], 2, 1, 2)),
    comm=0.25,
    memory_cap=9,
)


def test_title_states_result_and_cost_model():
    head, costs = title(PROBLEM, replay(PROBLEM, gpipe(PROBLEM))).splitlines()
    assert head.endswith("peak memory 4 (cap 9)")
    assert costs == (
        "actor: 2 stages, 2 micro-batches, F varying, B 3, W 1, 2 held; "
        "critic: 2 stages, 2 micro-batches, F 1, B 2, 0 held; comm 0.25"
    )


def test_hue_is_the_model_and_darkness_the_kind():
    shades = {
        (m, k): colorsys.rgb_to_hls(*color_of(PROBLEM, Op(m, k, 0, 0))) for m in ("actor", "critic") for k in "FBW"
    }
    for model in ("actor", "critic"):
        hues = {round(shades[model, kind][0], 3) for kind in "FBW"}
        assert len(hues) == 1
        assert shades[model, "F"][1] > shades[model, "B"][1] > shades[model, "W"][1]
    assert abs(shades["actor", "F"][0] - shades["critic", "F"][0]) == pytest.approx(0.5)


def test_same_order_gives_the_same_svg_with_a_bar_per_op(tmp_path):
    for name in ("1.svg", "2.svg"):
        save_gantt(tmp_path / name, problem=PROBLEM, order=gpipe(PROBLEM))
    text = (tmp_path / "1.svg").read_text()
    assert text == (tmp_path / "2.svg").read_text()
    assert text.count("stroke: #ffffff") >= 16


@pytest.mark.filterwarnings("error")
def test_work_without_duration_is_drawn_without_a_warning(tmp_path):
    problem = Problem(1, (Model("a", [0], 2, 0, 0),))
    save_gantt(tmp_path / "o.png", problem=problem, order=gpipe(problem))
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")
