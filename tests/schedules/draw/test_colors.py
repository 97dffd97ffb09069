"""Hues tell models apart, lightness tells kinds apart, and what is written on them can be read."""

import colorsys

from schedules.draw.colors import color_of, ink_on, kind_color
from schedules.order import Op
from schedules.problem import Model, Problem

PROBLEM = Problem(2, (Model("actor", [0, 1], 2, 1, 3, 1), Model("critic", [1, 0], 2, 1, 2)))
MODELS = 12


def hls(index, kind):
    return colorsys.rgb_to_hls(*kind_color(index, kind))


def apart(one, other):
    return min((one - other) % 1.0, (other - one) % 1.0)


def test_hue_is_the_model_and_darkness_the_kind():
    for index in range(MODELS):
        assert len({round(hls(index, kind)[0], 3) for kind in "FBW"}) == 1
        assert hls(index, "F")[1] > hls(index, "B")[1] + 0.2 > hls(index, "W")[1] + 0.4


def test_actor_and_critic_are_of_opposite_hues_and_no_two_of_ten_models_are_alike():
    assert apart(hls(0, "F")[0], hls(1, "F")[0]) > 0.45
    hues = [hls(index, "F")[0] for index in range(10)]
    assert min(apart(a, b) for i, a in enumerate(hues) for b in hues[:i]) > 0.07


def test_color_of_an_op_is_that_of_its_model_and_kind():
    assert color_of(PROBLEM, Op("critic", "B", 1, 0)) == kind_color(1, "B")


def test_ink_contrasts_with_every_colour():
    for index in range(MODELS):
        for kind in "FBW":
            color = kind_color(index, kind)
            ink = 0.0 if ink_on(color) == "black" else 1.0
            luminance = sum(w * c for w, c in zip((0.299, 0.587, 0.114), color, strict=True))
            assert abs(luminance - ink) > 0.4
