import builtins
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from fusedrl.libraries import Library
from fusedrl.machine import versions
from fusedrl.machine.versions import (
    NEEDED,
    PYTHON,
    is_foreign_apex,
    library_finding,
    needed_finding,
    python_finding,
    torch_finding,
    version_findings,
    vllm_finding,
)

SETUP = Path(__file__).resolve().parents[3] / "setup.py"


def test_this_environment_is_fit_and_every_library_has_a_line() -> None:
    found = {each.topic: each for each in version_findings(gpu=False)}
    assert {*NEEDED, "python", "transformer-engine", "flash-attn", "apex", "vllm"} <= found.keys()
    assert [each for each in found.values() if each.level == "bad"] == []
    assert found["torch"].text.startswith(importlib.metadata.version("torch"))


def test_supported_versions_are_those_of_the_packaging() -> None:
    text = SETUP.read_text()
    for name, allowed in NEEDED.items():
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f'"{name}>')]
        assert SpecifierSet(line.strip().strip('",').removeprefix(name)) == allowed
    (line,) = [line for line in text.splitlines() if "python_requires" in line]
    assert SpecifierSet(line.split('"')[1]) == PYTHON


@pytest.mark.parametrize(("version", "level"), [("3.9.1", "bad"), ("3.11.7", "ok"), ("3.14.0", "bad")])
def test_a_python_out_of_range_is_bad(version: str, level: str) -> None:
    assert python_finding(version).level == level


@pytest.mark.parametrize(
    ("name", "version", "level"),
    [
        ("megatron-core", "0.16.1", "ok"),
        ("megatron-core", "0.17.0rc1", "ok"),
        ("megatron-core", "0.15.0", "bad"),
        ("megatron-core", None, "bad"),
        ("hydra-core", "1.4.0rc3", "bad"),
    ],
)
def test_a_needed_library_is_there_in_a_supported_version(name: str, version: str | None, level: str) -> None:
    found = needed_finding(name, version)
    assert found.level == level
    assert ("setup.sh" in found.change) == (level == "bad")


@pytest.mark.parametrize("error", [OSError("libcudart.so.13: no such file"), RuntimeError("two\nlines"), ValueError()])
def test_a_torch_that_cannot_be_imported_is_a_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    real = builtins.__import__

    def failing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch":
            raise error
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", failing)
    found = torch_finding("2.13.0")
    assert found.level == "bad"
    assert found.text.startswith(f"2.13.0 cannot be imported: {type(error).__name__}")
    assert "\n" not in found.text


@pytest.mark.parametrize(
    ("library", "gpu", "foreign", "level"),
    [
        (Library("transformer_engine"), False, False, "ok"),
        (Library("transformer_engine"), True, False, "warn"),
        (Library("transformer_engine", version="2.9"), True, False, "ok"),
        (Library("transformer_engine", problem="RuntimeError: no CUDA"), False, False, "warn"),
        (Library("flash_attn"), True, False, "ok"),
        (Library("apex", problem="ModuleNotFoundError"), False, True, "warn"),
    ],
)
def test_optional_libraries_are_told_where_they_are_broken_or_missed(
    library: Library, gpu: bool, foreign: bool, level: str
) -> None:
    found = library_finding(library, gpu=gpu, foreign=foreign)
    assert found.level == level
    assert ("pip uninstall apex" in found.change) == foreign


def test_pypi_s_apex_is_another_project(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_foreign_apex()
    monkeypatch.setattr(versions, "installed", lambda name: "0.9.10")
    for files, foreign in ((["apex/models.py"], True), (["apex/optimizers/fused_adam.py"], False)):
        monkeypatch.setattr(importlib.metadata, "files", lambda name, files=files: files)
        assert is_foreign_apex() == foreign


@pytest.mark.parametrize(
    ("version", "level"), [(None, "ok"), ("0.32.1", "ok"), ("0.33.0", "warn"), ("of unknown version", "warn")]
)
def test_vllm_is_there_in_the_version_whose_calls_are_made(version: str | None, level: str) -> None:
    assert vllm_finding(version).level == level
