"""Every page in a real browser: quiet, offline, narrow and wide, by keyboard and for those who do not see it."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import CHROMIUM, MISSING, Chromium
from tests.browser.pages import PAGES

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

# what sticks out of the window to the right, but for what scrolls in a box of its own
OVERFLOW = """[...document.querySelectorAll('body *')].filter(e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
    return e.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
}).map(e => e.tagName + '.' + e.className).slice(0, 5)"""
UNNAMED = """[...document.querySelectorAll('img, svg, [role=img], [role=region]')].filter(
    e => !(e.getAttribute('alt') || e.getAttribute('aria-label'))).map(e => e.outerHTML.slice(0, 80))"""
MARKS = """[...document.querySelectorAll('svg')].map(svg => [svg.getAttribute('aria-label'),
    [...svg.querySelectorAll('circle')].map(
        c => [c.querySelector('title').textContent, c.getBoundingClientRect().y, c.getBoundingClientRect().height])])"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    assert CHROMIUM is not None
    with Chromium.start(CHROMIUM) as started:
        yield started


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_offline_and_fits_its_window(browser: Chromium, written: dict[str, Path], name: str) -> None:
    page = browser.open(written[name])
    for width in (320, 768, 1600):
        page.resize(width=width)
        assert page.value("document.documentElement.clientWidth") == width
        assert page.value(OVERFLOW) == [], width
        assert page.value("document.documentElement.scrollWidth") <= width
    assert page.errors == []
    assert page.requests[0] == written[name].resolve().as_uri()
    assert [each for each in page.requests[1:] if not each.startswith("data:")] == []
    assert page.value("document.querySelectorAll('script, link, iframe, object').length") == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_named_for_those_who_do_not_see_it(browser: Chromium, written: dict[str, Path], name: str) -> None:
    page = browser.open(written[name])
    assert page.value("document.documentElement.lang") == "en"
    assert page.value("document.title")
    assert page.value("document.querySelectorAll('h1').length") == 1
    assert page.value(UNNAMED) == []
    assert page.value("[...document.querySelectorAll('table')].filter(t => !t.querySelector('th')).length") == 0


def heights(page: Any, label: str) -> dict[str, tuple[float, float]]:
    """The marks of a chart: what one tells -> (its number, how far down it stands)."""
    marks = dict(page.value(MARKS))[label]
    return {told.rpartition(" ")[0]: (float(told.rpartition(" ")[2]), y) for told, y, height in marks if height > 0}


def test_the_bubbles_charts_stand_where_the_csv_s_numbers_are(browser: Chromium, written: dict[str, Path]) -> None:
    page = browser.open(written["bubbles"])
    found = heights(page, "2 ranks, fixed")
    rows = list(csv.DictReader((written["bubbles"].parent / "sweep.csv").read_text().splitlines()))
    wanted = {
        f"micro-batches {row['microbatches']}: {row['method']}, {kind}": float(row[column])
        for row in rows
        for kind, column in (("planned", "planned_bubble"), ("emulated", "measured_bubble"))
    }
    assert {told: value for told, (value, _) in found.items()} == wanted
    _stand_on_one_axis(list(found.values()))
    cells = page.value("[...document.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.textContent))")
    for row in rows:
        assert [row["microbatches"], row["method"], f"{float(row['planned_bubble']):.4g}"] in [c[:3] for c in cells]
    assert page.value("atob(document.querySelector('a[download]').href.split(',')[1])") == (
        (written["bubbles"].parent / "sweep.csv").read_text()
    )


def test_a_run_s_charts_stand_where_its_metrics_are(browser: Chromium, written: dict[str, Path]) -> None:
    page = browser.open(written["report"])
    metrics = [json.loads(line) for line in (written["report"].parent / "metrics.jsonl").read_text().splitlines()]
    found = heights(page, "Score and reward")
    assert {told: value for told, (value, _) in found.items()} == {
        f"step {row['step']}: critic/score/mean": row["critic/score/mean"] for row in metrics
    }
    _stand_on_one_axis(list(found.values()))
    boxes = page.value(
        "[...document.querySelectorAll('svg[aria-label^=Phases] rect')].map("
        "r => [r.querySelector('title').textContent, r.getBoundingClientRect().width])"
    )
    assert len(boxes) == 4
    assert {round(width, 1) for _, width in boxes} == {round(boxes[0][1], 1)}  # 2 ms each
    assert all(re.fullmatch(r"rank \d( instance)?: \w+ from [\d.]+ ms for 2 ms", told) for told, _ in boxes)


def _stand_on_one_axis(marks: list[tuple[float, float]]) -> None:
    """Numbers and heights lie on one falling line: the drawing is to scale."""
    (low, low_y), (high, high_y) = min(marks), max(marks)
    assert low_y > high_y
    for value, y in marks:
        assert y == pytest.approx(low_y + (value - low) / (high - low) * (high_y - low_y), abs=0.5)


def test_the_planned_page_has_its_charts_and_its_csv_s_rows(browser: Chromium, written: dict[str, Path]) -> None:
    page = browser.open(written["planned"])
    assert page.value("[...document.images].map(i => i.complete && i.naturalWidth > 0)") == [True]
    rows = list(csv.DictReader((written["planned"].parent / "sweep.csv").read_text().splitlines()))
    cells = page.value("[...document.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.textContent))")
    shown = {(row[0], row[1], row[2], row[4]) for row in cells[1:]}
    assert shown == {
        (row["microbatches"], row["method"], f"{float(row['makespan']):g}", f"{float(row['bubble_ratio']):.2%}")
        for row in rows
    }


def test_the_keyboard_reaches_links_and_what_scrolls(browser: Chromium, written: dict[str, Path]) -> None:
    page = browser.open(written["report"], width=320)
    reached = []
    for _ in range(40):
        page.press("Tab")
        reached.append(
            page.value("document.activeElement.getAttribute('href') || document.activeElement.className || 'body'")
        )
    assert {"trace_step2.json", "order.svg", "config.yaml", "scroll"} <= set(reached)


def test_a_timeline_stays_readable_in_a_narrow_window(browser: Chromium, written: dict[str, Path]) -> None:
    page = browser.open(written["report"], width=320)
    inner = "document.querySelector('svg[aria-label^=Phases]').getBoundingClientRect().width"
    assert page.value(inner) >= 640
    assert page.value("document.querySelector('figure.wide').scrollWidth > 320")  # in a box of its own


def test_what_a_model_wrote_stays_text(browser: Chromium, written: dict[str, Path]) -> None:
    for name in ("report", "samples"):
        page = browser.open(written[name])
        assert page.value("document.body.textContent.includes('</script></title><img src=x onerror=alert(1)>')")
        assert page.value("document.querySelectorAll('img[src=x]').length") == 0
