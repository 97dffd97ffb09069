from pathlib import Path

import pytest

from fusedrl.models.options import Recompute, StageOptions
from fusedrl.models.stage_layers import StageLayers
from tests.distributed.model_jobs import digests
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"
V, V_REVERSED = [[[1], [4]], [[2], [3]]], [[[2], [3]], [[1], [4]]]
ROUNDS, ROUNDS_REVERSED = [[[1], [3]], [[2], [4]]], [[[2], [4]], [[1], [3]]]


@pytest.mark.parametrize(
    ("placement", "reverse", "layers"),
    [("v", False, V), ("v", True, V_REVERSED), ("interleaved", False, ROUNDS), ("interleaved", True, ROUNDS_REVERSED)],
)
@pytest.mark.parametrize("family", ["llama", "qwen2-tied"])
def test_stages_hold_their_layers_and_export_what_they_loaded(
    ranks: RankPool,
    folders: dict[str, Path],
    tmp_path: Path,
    placement: str,
    reverse: bool,
    layers: list[list[list[int]]],
    family: str,
) -> None:
    found = ranks.run(
        f"{JOBS}:import_and_export_stages",
        world=2,
        start=str(folders[family]),
        end=str(tmp_path),
        layout=(1, 2, 1),
        placement=placement,
        reverse=reverse,
        head="lm",
    )
    assert [of_rank["layers"] for of_rank in found] == layers
    for of_rank in found:
        assert of_rank["embeds"] == [1 in stage for stage in of_rank["layers"]]
        assert of_rank["heads"] == [4 in stage for stage in of_rank["layers"]]
        assert of_rank["all trained"]
        assert of_rank["configs"] == 2
    assert digests(tmp_path) == digests(folders[family])


@pytest.mark.parametrize(
    ("placement", "reverse", "each", "layers"),
    [
        ("line", False, (1, 3), [[[1]], [[2, 3, 4]]]),
        ("line", True, (1, 3), [[[2, 3, 4]], [[1]]]),
        ("v", True, (1, 1, 1, 1), V_REVERSED),
    ],
)
def test_uneven_stages_hold_their_layers_and_export_what_they_loaded(
    ranks: RankPool,
    folders: dict[str, Path],
    tmp_path: Path,
    placement: str,
    reverse: bool,
    each: tuple[int, ...],
    layers: list[list[list[int]]],
) -> None:
    found = ranks.run(
        f"{JOBS}:import_and_export_stages",
        world=2,
        start=str(folders["qwen3"]),
        end=str(tmp_path),
        layout=(1, 2, 1),
        placement=placement,
        reverse=reverse,
        head="lm",
        layers=each,
    )
    assert [of_rank["layers"] for of_rank in found] == layers
    assert digests(tmp_path) == digests(folders["qwen3"])


def test_value_head_is_on_the_last_stage_and_trained(ranks: RankPool, value_folder: Path, tmp_path: Path) -> None:
    found = ranks.run(
        f"{JOBS}:import_and_export_stages",
        world=4,
        start=str(value_folder),
        end=str(tmp_path),
        layout=(2, 2, 1),
        placement="v",
        reverse=True,
        head="value",
    )
    assert [of_rank["heads"] for of_rank in found] == [[False, False], [False, False], [False, True], [False, True]]
    assert all(of_rank["all trained"] for of_rank in found)
    assert digests(tmp_path) == digests(value_folder)


def test_seed_gives_the_same_model_in_every_placement(ranks: RankPool, tmp_path: Path) -> None:
    found = [
        ranks.run(f"{JOBS}:stages_of_seed", world=2, placement=placement, folder=str(tmp_path / placement))[0]
        for placement in ("line", "v", "interleaved")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StageOptions(layers=StageLayers(each=(1, 1))), "actor.megatron.pipeline_layers=[1, 1] makes 2 layers, the"),
        (StageOptions(layers=StageLayers(first=4)), "actor.megatron.num_layers_in_first_pipeline_stage=4 leaves -1"),
        (
            StageOptions(recompute=Recompute("full", "uniform", 2), layers=StageLayers(each=(2, 1))),
            "actor.megatron.recompute_num_layers=2 does not divide the 1 layers of a stage",
        ),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(ranks: RankPool, options: StageOptions, message: str) -> None:
    (error,) = ranks.run(f"{JOBS}:stages_error", world=1, layers=3, placement="v", options=options)
    assert error.startswith(message)


def test_layers_that_do_not_divide_over_the_stages_are_refused(ranks: RankPool) -> None:
    (error,) = ranks.run(f"{JOBS}:stages_error", world=1, layers=3, placement="v")
    assert "actor.megatron.pipeline_model_parallel_size=1 with placement=v makes 2 stages" in error
    assert "num_hidden_layers=3" in error
