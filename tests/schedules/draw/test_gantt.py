"""The Gantt chart: complete, legible, bounded and reproducible."""

import time
import xml.etree.ElementTree as ElementTree

import pytest

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.draw.blocks import blocks_of
from schedules.draw.gantt import figure_size, gantt, save_gantt
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.published import published

PROBLEM = Problem(
    2,
    (Model("actor", [0, 1], 2, [1, 2], 3, backward_weight=1, activation=2), Model("critic", [1, 0], 2, 1, 2)),
    comm=0.25,
    memory_cap=9,
)
V = Problem(2, (Model("a", [0, 1, 1, 0], 4, 1, 2, 1), Model("b", [1, 0, 0, 1], 4, 1, 2)))


def drawn(problem, order):
    """The chart, laid out for PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = gantt(problem, order)
    FigureCanvasAgg(figure).draw()
    return figure


def boxes(figure, artists):
    """Left, bottom, right and top of artists in pixels."""
    return [artist.get_window_extent(figure.canvas.get_renderer()).extents for artist in artists]


def overlap(one, other):
    return min(one[2], other[2]) > max(one[0], other[0]) and min(one[3], other[3]) > max(one[1], other[1])


def keys(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_a_bar_for_every_block_in_the_colour_of_its_kind():
    order = greedy(PROBLEM)
    bars = gantt(PROBLEM, order).axes[0].collections[0]
    blocks = blocks_of(PROBLEM, order, replay(PROBLEM, order))
    assert [tuple(color[:3]) for color in bars.get_facecolors()] == [pytest.approx(b.color) for b in blocks]
    spans = [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
    assert spans == [(b.begin, b.end) for b in blocks]


def test_legend_names_each_model_and_kind_that_is_there_and_no_other():
    assert keys(gantt(PROBLEM, gpipe(PROBLEM))) == ["actor F", "actor B", "critic F", "critic B"]
    assert keys(gantt(V, greedy(V))) == [
        "a F",
        "a B",
        "a W",
        "b F",
        "b B",
        "strip: later stage",
    ]


def test_later_stages_on_a_rank_have_a_strip():
    order = greedy(V)
    later = [b for b in blocks_of(V, order, replay(V, order)) if b.turn]
    strips = gantt(V, order).axes[0].collections[1].get_paths()
    assert [path.vertices[:, 0].min() for path in strips] == [b.begin for b in later] != []


@pytest.mark.parametrize("problem", [PROBLEM, V, published(5), published(9)], ids=["small", "v", "exp5", "exp9"])
def test_numbers_stay_within_their_blocks(problem):
    order = greedy(problem)
    figure = drawn(problem, order)
    chart = figure.axes[0]
    blocks = {
        ((b.begin + b.end) / 2, (b.top + b.bottom) / 2): b for b in blocks_of(problem, order, replay(problem, order))
    }
    assert len(chart.texts) > len(blocks) / 5
    for text, (left, bottom, right, top) in zip(chart.texts, boxes(figure, chart.texts), strict=True):
        block = blocks[text.get_position()]
        assert text.get_text() == str(block.op.microbatch)
        corners = chart.transData.transform([(block.begin, block.bottom + 0.5), (block.end, block.top - 0.5)])
        assert corners[0][0] <= left < right <= corners[1][0]
        assert corners[0][1] <= bottom < top <= corners[1][1]


def test_numbers_of_ops_of_a_kind_are_of_one_size_and_narrow_ops_have_none():
    problem = published(9)
    chart = gantt(problem, greedy(problem)).axes[0]
    assert len({text.get_fontsize() for text in chart.texts}) == 1
    assert {text.get_text() for text in chart.texts} == {str(m) for m in range(64)}
    assert len(chart.texts) == 16 * 64  # the actor's backwards alone have the room


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        V,
        published(9),
        Problem(2, tuple(Model(f"a-model-with-a-rather-long-name-{i}", [0, 1], 1, 1, 2) for i in range(20))),
    ],
    ids=["small", "v", "exp9", "many"],
)
def test_title_legend_and_panels_are_inside_the_figure_and_apart(problem):
    figure = drawn(problem, gpipe(problem))
    chart, memory = figure.axes
    parts = boxes(figure, [figure._suptitle, chart.get_legend(), chart, memory])
    width, height = figure.get_size_inches() * figure.dpi
    for i, one in enumerate(parts):
        assert one[0] >= 0
        assert one[1] >= 0
        assert one[2] <= width
        assert one[3] <= height
        assert not any(overlap(one, other) for other in parts[:i])
    assert chart.get_window_extent().height > 50


@pytest.mark.parametrize(("ranks", "longest"), [(1, 1), (4, 16), (8, 64), (64, 4000), (4096, 5_000_000)])
def test_figure_size_is_bounded(ranks, longest):
    width, rows, memory = figure_size(ranks, longest=longest)
    assert 9 <= width <= 22
    assert 1.2 <= rows <= 16
    assert 1.6 <= memory <= 3


def test_every_rank_has_its_tick_up_to_32_and_ticks_are_few_beyond():
    for ranks, most in ((16, 16), (64, 33), (1000, 33)):
        problem = Problem(ranks, (Model("a", list(range(ranks)), 1, 1, 2),))
        ticks = [t for t in gantt(problem, gpipe(problem)).axes[0].get_yticks() if 0 <= t < ranks]
        assert len(ticks) <= most
        assert all(t == int(t) for t in ticks)
        assert ranks > 32 or len(ticks) == ranks


@pytest.mark.parametrize("name", ["o.png", "o.svg"])
def test_two_thousand_ranks_are_a_bounded_picture_soon(tmp_path, name):
    problem = Problem(2000, (Model("a", list(range(2000)), 8, 1, 2, activation=1),))
    order = serial_1f1b(problem)
    began = time.perf_counter()
    save_gantt(tmp_path / name, problem=problem, order=order)
    assert time.perf_counter() - began < 60
    assert (tmp_path / name).stat().st_size < 3_000_000


def test_svg_is_the_same_each_time_and_well_formed(tmp_path):
    for name in ("1.svg", "2.SVG"):
        save_gantt(tmp_path / name, problem=PROBLEM, order=gpipe(PROBLEM))
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.SVG").read_bytes()
    assert ElementTree.parse(tmp_path / "1.svg").getroot().tag.endswith("svg")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("forward", [0, 1e-300, 1e100])
def test_any_durations_are_drawn_without_a_warning(tmp_path, forward):
    problem = Problem(1, (Model("a", [0], 2, forward, forward),))
    save_gantt(tmp_path / "o.png", problem=problem, order=gpipe(problem))
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")


def test_settings_of_matplotlib_are_left_as_they_are(tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.hashsalt", None)
    before = dict(matplotlib.rcParams)
    save_gantt(tmp_path / "o.svg", problem=PROBLEM, order=gpipe(PROBLEM))
    assert dict(matplotlib.rcParams) == before
