import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fusedrl.models.hf_export import write_random_hf
from fusedrl.models.hf_folder import HfFolder
from tests.distributed.model_jobs import TINY, digests, tokens
from tests.distributed.pool import RankPool
from tests.fusedrl.models.conftest import FAMILIES

JOBS = "tests.distributed.model_jobs"


def round_trip(ranks: RankPool, source: Path, target: Path, layout: tuple[int, int, int], **options: str) -> None:
    options = {"head": "lm", "dtype": "float32"} | options
    world = layout[0] * layout[1] * layout[2]
    ranks.run(f"{JOBS}:import_and_export", world=world, start=str(source), end=str(target), layout=layout, **options)


@pytest.mark.parametrize("layout", [(1, 1, 1), (2, 1, 2), (1, 4, 1), (2, 2, 1)])
def test_import_then_export_is_bit_equal(
    ranks: RankPool, folders: dict[str, Path], tmp_path: Path, layout: tuple[int, int, int]
) -> None:
    for family, folder in folders.items():
        round_trip(ranks, folder, tmp_path / family, layout)
        assert digests(tmp_path / family) == digests(folder), family


def test_value_head_survives(ranks: RankPool, value_folder: Path, tmp_path: Path) -> None:
    round_trip(ranks, value_folder, tmp_path, (1, 2, 1), head="value")
    assert digests(tmp_path) == digests(value_folder)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["LlamaForSequenceClassification"]


def test_bfloat16_goes_through_unchanged(ranks: RankPool, tmp_path: Path) -> None:
    source = write_random_hf(TINY, tmp_path / "source", seed=0, dtype=torch.bfloat16)
    round_trip(ranks, source, tmp_path / "target", (2, 1, 1), dtype="bfloat16")
    tensors = HfFolder(tmp_path / "target")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert digests(tmp_path / "target") == digests(source)


def test_vocabulary_padding_is_stripped(ranks: RankPool, folders: dict[str, Path], tmp_path: Path) -> None:
    round_trip(ranks, folders["llama"], tmp_path, (2, 1, 1))
    assert HfFolder(tmp_path)["lm_head.weight"].shape[0] == 50


def test_tied_table_is_written_once(ranks: RankPool, folders: dict[str, Path], tmp_path: Path) -> None:
    round_trip(ranks, folders["qwen2-tied"], tmp_path, (1, 2, 1))
    assert "lm_head.weight" not in HfFolder(tmp_path)


def test_stages_write_a_file_each_and_an_index(ranks: RankPool, folders: dict[str, Path], tmp_path: Path) -> None:
    round_trip(ranks, folders["llama"], tmp_path, (1, 2, 1))
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert sorted(set(index["weight_map"].values())) == [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert index["metadata"]["total_size"] == sum(4 * t.numel() for t in HfFolder(folders["llama"]).values())


def test_files_of_an_earlier_layout_are_removed(ranks: RankPool, folders: dict[str, Path], tmp_path: Path) -> None:
    round_trip(ranks, folders["llama"], tmp_path, (1, 2, 1))
    round_trip(ranks, folders["llama"], tmp_path, (1, 1, 1))
    assert [path.name for path in tmp_path.glob("model*")] == ["model.safetensors"]


def test_tokenizer_files_come_along(ranks: RankPool, tmp_path: Path) -> None:
    source = write_random_hf(TINY, tmp_path / "source", seed=0)
    (source / "tokenizer.json").write_text("{}")
    round_trip(ranks, source, tmp_path / "target", (1, 1, 1))
    assert (tmp_path / "target" / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_checkpoint_loads_in_transformers(family: str, folders: dict[str, Path], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from fusedrl.models.architecture import Architecture

    arch = replace(Architecture.from_folder(folders[family]), initializer_range=0.02)
    folder = write_random_hf(arch, tmp_path, seed=4)
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model(tokens()).logits.isfinite().all()


def test_fresh_checkpoint_is_the_seeds_model(ranks: RankPool, tmp_path: Path) -> None:
    folder = write_random_hf(TINY, tmp_path / "fresh", seed=11)
    (built,) = ranks.run(
        f"{JOBS}:digests_of_seed",
        world=1,
        arch={},
        layout=(1, 1, 1),
        reverse=False,
        head="lm",
        seed=11,
        folder=str(tmp_path / "built"),
    )
    assert digests(folder) == built
