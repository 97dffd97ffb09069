"""The legend has a key for what is in the order and for nothing else, in as many columns as there is room for."""

from schedules.builders import gpipe, greedy
from schedules.draw.colors import kind_color
from schedules.draw.legend import legend_columns, legend_keys
from schedules.problem import Model, Problem

SPLIT = Problem(2, (Model("actor", [0, 1], 2, 1, 3, 1), Model("reference", [1, 0], 2, 1)))
V = Problem(2, (Model("a", [0, 1, 1, 0], 4, 1, 2, 1), Model("b", [1, 0], 4, 1, 2)))


def labels(problem, order):
    return [key.get_label() for key in legend_keys(problem, order)]


def test_a_key_for_each_model_and_kind_of_the_order():
    assert labels(SPLIT, gpipe(SPLIT)) == ["actor F", "actor B", "reference F"]
    assert labels(SPLIT, greedy(SPLIT)) == ["actor F", "actor B", "actor W", "reference F"]
    colors = [key.get_facecolor()[:3] for key in legend_keys(SPLIT, greedy(SPLIT))]
    assert colors == [kind_color(0, "F"), kind_color(0, "B"), kind_color(0, "W"), kind_color(1, "F")]


def test_the_mark_of_later_stages_is_told_where_there_are_any():
    assert labels(V, greedy(V))[-1] == "strip: later stage"


def test_many_models_with_long_names_have_few_and_short_keys():
    problem = Problem(1, tuple(Model("a" * 50 + str(i), [0], 1, 1, 2) for i in range(30)))
    keys = labels(problem, gpipe(problem))
    assert (len(keys), keys[-1]) == (25, "and 36 more")
    assert max(map(len, keys)) <= 30


def test_columns_fit_the_width():
    keys = legend_keys(V, greedy(V))
    longest = max(len(key.get_label()) for key in keys)
    few, all_keys = (legend_columns(keys, width=width, size=9) for width in (5, 22))
    assert 1 < few < all_keys == len(keys)
    assert few * longest * 0.55 * 9 <= 5 * 72
    assert legend_columns(keys * 5, width=22, size=9) <= 9
    assert legend_columns(keys, width=1, size=9) == 1
