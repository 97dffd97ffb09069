"""What a sweep leaves behind: files that stand alone and say all that made them."""

import base64
import csv
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from schedules.search.limits import Limits
from schedules.sweep import Grid, Point, command_of, sweep
from schedules.sweep_page import chart, page, write

GRID = Grid(depths=[2, 4], microbatches=[2, 4], methods=["serial", "overlay", "greedy"], cap=1.0)
POINTS = list(sweep(GRID, limits=Limits()))
VOID = {"meta", "img"}


@pytest.fixture
def text(tmp_path):
    write(POINTS, tmp_path, grid=GRID, limits=Limits())
    return (tmp_path / "index.html").read_text()


class Reader(HTMLParser):
    """Collects what a page loads, and the tags that are open."""

    def __init__(self):
        super().__init__()
        self.loaded, self.open, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_loads_nothing(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.loaded) == 2
    for source in reader.loaded:
        assert base64.b64decode(source.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert "script" not in reader.tags
    assert not re.search(r"https?:|@import|url\(", text)


def test_page_has_a_table_per_depth_with_every_point(text):
    rows = re.findall(r"<tr[^>]*><td>(\d+)</td><td class=\"text\">([a-z0-9-]+)</td>", text)
    assert rows == [(str(p.microbatches), p.method) for p in POINTS]
    assert text.count("<table>") == text.count("<img ") == text.count("<h2>") == 2


def test_page_says_the_command_the_costs_and_the_cap(text):
    assert f"<code>{command_of(GRID, limits=Limits())} --out FOLDER</code>" in text
    assert "memory cap 1 x serial 1F1B&#x27;s peak" in text
    assert "The cap does not bind serial, overlay" in text
    free = replace(GRID, cap=None)
    assert "memory cap none" in page(POINTS, {2: b"", 4: b""}, grid=free, limits=Limits())


def test_best_is_the_shortest_within_the_cap():
    points = [
        Point(2, 4, "serial", 30, 10, 0.5, 1.0, 0.1),
        Point(2, 4, "overlay", 10, 10, 0.1, 1.2, 0.1),
        Point(2, 4, "gpipe", 20, 10, 0.3, 1.4, 0.1),
        Point(2, 4, "greedy", 20, 10, 0.3, 1.0, 0.1),
    ]
    text = page(points, {2: b""}, grid=replace(GRID, depths=[2]), limits=Limits())
    assert re.findall(r'<td class="best">([^<]*)</td>', text) == ["20", "30.00%"]
    assert re.findall(r'<td class="over">([^<]*)</td>', text) == ["1.20 x", "1.40 x"]


def test_table_and_charts_beside_the_page(tmp_path, text):
    with (tmp_path / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(int(r["depth"]), r["method"], float(r["makespan"])) for r in rows] == [
        (p.depth, p.method, p.makespan) for p in POINTS
    ]
    assert (tmp_path / "depth4.png").read_bytes().startswith(b"\x89PNG")


def test_chart_shows_each_method_the_bound_and_the_cap(monkeypatch):
    from matplotlib.figure import Figure

    figures = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **options: figures.append(self) or save(self, *args, **options)
    )
    chart([p for p in POINTS if p.depth == 4], grid=GRID)
    bubbles, memory = figures[0].axes
    lines = {line.get_label(): line for line in bubbles.get_lines()}
    assert list(lines) == ["serial (no cap)", "overlay (no cap)", "greedy", "lower bound"]
    assert list(lines["greedy"].get_xdata()) == [2, 4]
    assert list(lines["greedy"].get_ydata()) == [p.bubble_ratio for p in POINTS if (p.depth, p.method) == (4, "greedy")]
    assert list(memory.get_lines()[-1].get_ydata()) == [1.0, 1.0]
    assert [t.get_text() for t in figures[0].legends[0].get_texts()] == [*lines, "memory cap"]
    assert [axes.get_xlabel() for axes in (bubbles, memory)] == ["micro-batches of each model"] * 2
    assert [t.get_text() for t in bubbles.get_xticklabels()] == ["2", "4"]


@pytest.mark.filterwarnings("error")
def test_one_point_and_many_points_are_drawn_without_a_warning():
    assert chart(POINTS[:1], grid=GRID).startswith(b"\x89PNG")
    many = [Point(2, m, "greedy", 10, 9, 0.1, 1.0, 0.0) for m in range(1, 60)]
    assert chart(many, grid=replace(GRID, cap=None)).startswith(b"\x89PNG")
