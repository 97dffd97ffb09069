import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fusedrl.models.hf_export import write_random_hf
from tests.distributed.model_jobs import TINY, tokens
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.model_jobs"
LAYOUTS = [((1, 1, 1), False), ((2, 1, 1), False), ((1, 2, 1), False), ((1, 2, 1), True), ((2, 2, 1), True)]


@pytest.fixture(scope="module")
def hugging_face_logits(folders: dict[str, Path]) -> dict[str, np.ndarray]:
    import transformers

    models = {name: transformers.AutoModelForCausalLM.from_pretrained(folder) for name, folder in folders.items()}
    with torch.no_grad():
        return {name: model(tokens()).logits.numpy() for name, model in models.items()}


@pytest.mark.parametrize(("layout", "reverse"), LAYOUTS)
def test_logits_equal_hugging_faces(
    ranks: RankPool,
    folders: dict[str, Path],
    hugging_face_logits: dict[str, np.ndarray],
    layout: tuple[int, int, int],
    reverse: bool,
) -> None:
    tp, pp, dp = layout
    paths = [str(folder) for folder in folders.values()]
    found = ranks.run(f"{JOBS}:logits_of_folders", world=tp * pp * dp, folders=paths, layout=layout, reverse=reverse)
    last_stage = found[0] if reverse else found[-1]
    for name, logits in zip(folders, last_stage, strict=True):
        np.testing.assert_allclose(logits, hugging_face_logits[name], atol=1e-4, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(("layout", "reverse"), [((1, 1, 1), False), ((2, 2, 1), True)])
def test_values_equal_hugging_faces_sequence_classification(
    ranks: RankPool, value_folder: Path, layout: tuple[int, int, int], reverse: bool
) -> None:
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(value_folder)
    with torch.no_grad():
        expected = model.score(model.model(tokens()).last_hidden_state)
    world = layout[0] * layout[1]
    found = ranks.run(f"{JOBS}:values_of_folder", world=world, folder=str(value_folder), layout=layout, reverse=reverse)
    values, messages = found[0]
    np.testing.assert_allclose(values, expected.numpy(), atol=1e-4, rtol=1e-4)
    assert messages == []


def test_critic_from_a_language_model_starts_at_zero_and_says_so(ranks: RankPool, folders: dict[str, Path]) -> None:
    ((values, messages),) = ranks.run(
        f"{JOBS}:values_of_folder", world=1, folder=str(folders["llama"]), layout=(1, 1, 1), reverse=False
    )
    assert not values.any()
    assert values.shape == (4, 12, 1)
    assert len(messages) == 1
    assert "value head starts at zero" in messages[0]


def write_tiny(folder: Path, change: dict[str, torch.Tensor | None], **config: Any) -> str:
    """A fresh TINY checkpoint with some tensors replaced, added or (None) removed."""
    write_random_hf(replace(TINY, **config), folder, seed=0)
    tensors = {**load_file(folder / "model.safetensors"), **change}
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.layers.3.mlp.up_proj.weight": None}, "missing model.layers.3.mlp.up_proj.weight, spare none"),
        ({"model.layers.4.mlp.up_proj.weight": torch.ones(48, 32)}, "missing none, spare model.layers.4.mlp.up_proj"),
        ({"lm_head.weight": None}, "missing lm_head.weight"),
        ({"model.norm.weight": torch.ones(31)}, r"model.norm.weight give \(31,\), the model wants \(32,\)"),
    ],
)
def test_missing_spare_and_misshapen_tensors_are_errors(
    ranks: RankPool, tmp_path: Path, change: dict[str, torch.Tensor | None], message: str
) -> None:
    folder = write_tiny(tmp_path, change)
    (error,) = ranks.run(f"{JOBS}:load_error", world=1, folder=folder, head="lm")
    assert re.search(message, error), error


def test_language_model_from_a_value_checkpoint_is_an_error(ranks: RankPool, tmp_path: Path) -> None:
    folder = write_tiny(tmp_path, {"lm_head.weight": None, "score.weight": torch.ones(1, 32)})
    (error,) = ranks.run(f"{JOBS}:load_error", world=1, folder=folder, head="lm")
    assert "missing lm_head.weight, spare score.weight" in error


def test_old_rotary_buffers_are_passed_over(ranks: RankPool, tmp_path: Path) -> None:
    folder = write_tiny(tmp_path, {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    assert ranks.run(f"{JOBS}:load_error", world=1, folder=folder, head="lm") == [""]


@pytest.mark.parametrize(("config", "name"), [({"ffn_hidden_size": 64}, "ffn_hidden_size"), ({"tied": True}, "tied")])
def test_checkpoint_of_another_architecture_is_an_error(
    ranks: RankPool, tmp_path: Path, config: dict[str, Any], name: str
) -> None:
    (error,) = ranks.run(f"{JOBS}:load_error", world=1, folder=write_tiny(tmp_path, {}, **config), head="lm")
    assert f"config.json has {name}=" in error
