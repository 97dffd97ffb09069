"""All patches together: idempotent, silent on CUDA, torch untouched, each documented."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest
import torch

import megatron_patches
from megatron_patches import parameter_groups, weight_gradients
from megatron_patches.retarget import functions_of

ON_DEMAND = (weight_gradients, parameter_groups)  # not a matter of the CPU: whoever wants it connects it
RETARGETED = [
    pytest.param(patch, place, id=place)
    for patch in megatron_patches.PATCHES
    for place in (*getattr(patch, "PLACES", ()), *getattr(patch, "SEEDING", ()))
]


def words(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from words(constant)
        elif isinstance(constant, str):
            yield constant


def test_names_every_patch_and_may_be_called_again() -> None:
    names = megatron_patches.apply()
    assert names == tuple(patch.NAME for patch in megatron_patches.PATCHES)
    assert megatron_patches.apply() == names


def test_does_nothing_where_cuda_is_present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(megatron_patches, "PATCHES", (None,))
    assert megatron_patches.apply() == ()


def test_torch_itself_is_untouched() -> None:
    megatron_patches.apply()
    assert not torch.cuda.is_available()
    for call in (lambda: torch.ones(1).cuda(), lambda: torch.ones(1, device="cuda"), torch.cuda.current_device):
        with pytest.raises((AssertionError, RuntimeError)):
            call()
    assert torch.ones(1).type() == "torch.FloatTensor"


@pytest.mark.parametrize(("patch", "place"), RETARGETED)
def test_place_asked_for_cuda_and_no_longer_does(patch: ModuleType, place: str) -> None:
    megatron_patches.apply()
    functions = functions_of(place)
    assert "cuda" in inspect.getsource(sys.modules[place.partition(":")[0]])
    for function in functions:
        left = {word for word in words(function.__code__) if word == "cuda" or word.startswith("torch.cuda.")}
        assert not left, function.__qualname__


@pytest.mark.parametrize("patch", [*megatron_patches.PATCHES, *ON_DEMAND], ids=lambda patch: patch.NAME)
def test_patch_says_what_why_for_which_versions_and_how_to_remove(patch: ModuleType) -> None:
    assert patch.__doc__ is not None
    assert all(f"\n{head}:" in patch.__doc__ for head in ("What", "Why", "Versions", "Remove"))
    docs = Path(megatron_patches.__file__).parent.parent / "docs" / "megatron_patches.md"
    assert f"`{patch.NAME}`" in docs.read_text()


def test_no_file_is_left_out() -> None:
    files = {path.stem for path in Path(megatron_patches.__file__).parent.glob("*.py")}
    assert files == {"__init__", "retarget"} | {patch.NAME for patch in (*megatron_patches.PATCHES, *ON_DEMAND)}
