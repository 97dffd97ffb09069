"""Rows of ReaL's settings, and what a row says."""

import pytest

from fusedrl.bench.plans import BenchOptions, main, row, settings, table
from fusedrl.plan.options import Options


def test_settings_are_the_published_ones() -> None:
    made = list(settings(BenchOptions()))
    assert {options.cluster for options in made} == {f"h100_{nodes}x8" for nodes in (1, 2, 4, 8, 16)}
    tokens = {o.data__train_batch_size * (o.data__max_prompt_length + (o.data__max_response_length or 0)) for o in made}
    assert tokens == {2**20}
    assert all(o.data__mean_response_length == o.data__max_response_length for o in made)
    assert len(made) == 2 * 8


def test_a_row_tells_gains_over_heuristics_that_are_at_least_one() -> None:
    options = Options(
        cluster="cpu_1x4",
        actor="tiny",
        critic="tiny",
        dtype="float32",
        data__train_batch_size=16,
        data__max_prompt_length=16,
        data__max_response_length=32,
        data__mini_batches=2,
        search__smallest=4,
        search__recompute=False,
        search__restarts=4,
    )
    cells, told = row(options)
    assert cells["proved"] == "yes"
    gains = [float(cells[name]) for name in ("colocated", "one_layout", "split", "dschat", "real_heuristic")]
    assert min(gains) >= 1
    assert any("assumed" in line for line in told)
    assert table([cells]).count("\n") == 2


@pytest.mark.parametrize(("argument", "told"), [("actors=[gpt]", "actors: 'gpt'"), ("contexts=[7]", "contexts: '7'")])
def test_unknown_rows_are_refused(argument: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([argument]) == 2
    assert told in capsys.readouterr().err
