"""The command: a plan told and as one object, the same for a seed; wrong arguments end with code 2 and their key."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fusedrl.plan.command import main

FAST = ["dtype=float32", "data.train_batch_size=16", "data.mini_batches=2", "data.max_prompt_length=16"]
FAST += ["data.max_response_length=32", "search.restarts=4"]
TINY = ["cluster=cpu_1x4", "actor=tiny", "critic=tiny", "search.smallest=4", "search.recompute=false", *FAST]


def test_object_files_and_text_tell_one_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, svg, lengths = tmp_path / "plan.txt", tmp_path / "plan.svg", tmp_path / "lengths.txt"
    lengths.write_text("4\n8\n30\n")
    arguments = [*TINY, f"data.lengths={lengths}", f"out={out}", f"svg={svg}", "heuristics=[colocated,split]"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["heuristics"]) == ["colocated", "split"]
    assert found["plan"]["proved"]
    assert found["plan"]["seconds"] <= min(each["seconds"] for each in found["heuristics"].values() if each["fits"])
    assert out.read_text().splitlines() == found["plan"]["overrides"]
    titles = [each.text for each in ElementTree.parse(svg).iter() if each.tag.endswith("title")]
    assert any(title and ": 0.000 to " in title for title in titles)
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert f"plan: {found['plan']['seconds']:.4g} s a step" in told
    assert "lengths drawn from the 3 of lengths.txt" in told
    assert all(f"  {line}" in told for line in found["plan"]["overrides"])
    assert "against" in told


def test_mcmc_is_there_and_no_faster(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = []
    for method in ("auto", "mcmc"):
        assert main([*TINY, f"search.method={method}", "search.steps=2000", "heuristics=[]", "--json"]) == 0
        seconds.append(json.loads(capsys.readouterr().out)["plan"]["seconds"])
    assert seconds[0] <= seconds[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cluster=cpu_1x4", "actor=tiny"], "critic: a value is needed"),
        ([*TINY, "data.lenghts=x"], "data.lenghts: no such key; did you mean data.lengths?"),
        ([*TINY, "search.method=luck"], "search.method=luck"),
        ([*TINY, "search.inference=none"], "search.inference: 'none' is unknown"),
        ([*TINY, "heuristics=[best]"], "heuristics: 'best'"),
        ([*TINY, "data.epochs=0"], "data.epochs=0"),
        (["cluster=cpu_1x4", "actor=tiny_one", "critic=tiny"], "actor=tiny_one: there is no such sheet"),
    ],
)
def test_wrong_arguments_end_with_their_key(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_nothing_fits_is_code_1_and_says_by_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster=h100_1x1", "actor=llama_33b", "critic=llama_7b", "data.train_batch_size=8"]) == 1
    assert "GiB too much" in capsys.readouterr().err
