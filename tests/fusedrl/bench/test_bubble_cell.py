from dataclasses import replace
from pathlib import Path

import pytest

from fusedrl.bench.arguments import ArgumentError, read
from fusedrl.bench.bubble_cell import Cell, cell_problem, changed, failure_of, file_of, read_cell, shares_of, write_cell
from fusedrl.bench.lengths import DISTRIBUTIONS
from schedules.replay import replay
from schedules.solve import solve


@pytest.mark.parametrize("mix", DISTRIBUTIONS)
def test_all_mixes_have_the_same_work(mix: str) -> None:
    cell = Cell(depth=3, microbatches=6, mix=mix)
    problem = cell_problem(cell)
    found = replay(problem, solve(problem, method="greedy").order)
    assert found.makespan * 3 * (1 - found.bubble_ratio) == pytest.approx(3 * 6 * 3 * (5 + 2))
    assert max(shares_of(cell)) == 1 if mix == "fixed" else max(shares_of(cell)) > 1
    assert shares_of(cell) == shares_of(replace(cell, method="serial", depth=2))  # the same lengths in all of a mix
    if mix != "fixed":
        assert shares_of(cell) != shares_of(replace(cell, seed=1))


def test_memory_goes_with_a_micro_batch_s_tokens() -> None:
    cell = Cell(depth=2, microbatches=4, mix="bimodal")
    actor = cell_problem(cell).models[0]
    shares = shares_of(cell)
    assert [actor.activation_of(1, m) for m in range(4)] == pytest.approx(shares)
    assert [actor.duration("B", 0, m) for m in range(4)] == pytest.approx([10 * share for share in shares])


def test_a_cell_is_kept_while_its_settings_are_those_asked(tmp_path: Path) -> None:
    cell = Cell(depth=2)
    failure_of(cell, folder=tmp_path).parent.mkdir()
    failure_of(cell, folder=tmp_path).write_text("before")
    write_cell(cell, {"planned_bubble": 0.25}, folder=tmp_path)
    assert read_cell(cell, folder=tmp_path) == {"planned_bubble": 0.25}
    assert not failure_of(cell, folder=tmp_path).exists()
    other = replace(cell, unit_ms=3.0, seed=5)
    assert read_cell(other, folder=tmp_path) is None
    assert changed(other, folder=tmp_path) == ["seed", "unit_ms"]
    assert changed(replace(cell, method="serial"), folder=tmp_path) == []  # another file


@pytest.mark.parametrize("cut", ["", "{", '{"settings": {"depth": 2}}', '{"figures": {}, "settings": []}', "[1]"])
def test_a_half_written_cell_is_none(tmp_path: Path, cut: str) -> None:
    cell = Cell(depth=2)
    write_cell(cell, {}, folder=tmp_path)
    file_of(cell, folder=tmp_path).write_text(cut)
    assert read_cell(cell, folder=tmp_path) is None
    assert changed(cell, folder=tmp_path) == []


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("depth=0", "depth: 0 is too small; at least 1"),
        ("depth=65", "depth: 65 is too large; at most 64"),
        ("repeats=1", "repeats: 1 is too small; at least 2"),
        ("comm=-1", "comm: -1 must be from 0"),
        ("unit_ms=0", "unit_ms: 0 must be above 0"),
        ("mix=bimodel", "mix: 'bimodel' is unknown; did you mean bimodal?"),
        ("method=fast", "method: 'fast' is unknown"),
    ],
)
def test_settings_off_their_limits_are_refused_by_name(word: str, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(Cell, [word])
    assert str(caught.value).startswith(said)
