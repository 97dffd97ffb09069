"""Stand-in installs on sys.path: absent, working, raising, left over, another project of the same name."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusedrl.libraries import TITLES, Library, _Guard, guard_megatron, libraries, library

BUILDS_A_MODEL = """
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.implementation import Implementation, choose
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
arch = Architecture(family="llama", hidden_size=16, num_layers=1, num_heads=2, num_kv_heads=2, head_dim=8,
                    ffn_hidden_size=16, vocab_size=50)
model = build_model(arch, build_groups(Layout()))
print(choose(Implementation()).line())
"""


@pytest.fixture
def installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path; no library has been tried yet."""
    before = dict(sys.modules)
    for name in TITLES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    library.cache_clear()
    yield tmp_path
    library.cache_clear()
    for name in [each for each in sys.modules if each.partition(".")[0] in TITLES]:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] in TITLES})


def install(folder: Path, name: str, *, code: str = "", parts: tuple[str, ...] = ()) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    for part in parts:
        (folder / name / f"{part}.py").write_text("")


def test_a_working_library_has_its_version(installs: Path) -> None:
    install(installs, "transformer_engine", code="__version__ = '2.9'", parts=("pytorch",))
    assert library("transformer_engine") == Library("transformer_engine", version="2.9")
    assert str(library("transformer_engine")) == "Transformer Engine 2.9"


def test_an_absent_library_has_no_problem(installs: Path) -> None:
    assert library("flash_attn") == Library("flash_attn")
    assert str(library("flash_attn")) == "flash-attn absent"


@pytest.mark.parametrize("error", ["RuntimeError", "OSError", "AttributeError", "ImportError"])
def test_a_library_that_raises_is_left_out_with_the_reason_in_one_line(installs: Path, error: str) -> None:
    install(installs, "transformer_engine", code=f"raise {error}('no CUDA found\\nand more')")
    assert str(library("transformer_engine")) == f"Transformer Engine left out ({error}: no CUDA found)"


def test_an_empty_folder_is_left_out_by_its_path(installs: Path) -> None:
    (installs / "transformer_engine").mkdir()
    (installs / "apex").mkdir()
    for found in (library("transformer_engine"), library("apex")):
        assert found.problem == f"{installs / found.name} is a leftover folder without the package: remove it"


def test_another_project_of_the_name_apex_is_left_out(installs: Path) -> None:
    install(installs, "apex")
    assert library("apex").problem.startswith("ModuleNotFoundError: No module named 'apex.")


@pytest.mark.parametrize("broken", ["raises", "empty", "half"])
def test_a_broken_library_cannot_be_imported_any_more(installs: Path, broken: str) -> None:
    if broken == "empty":
        (installs / "transformer_engine").mkdir()
    else:
        code = "raise RuntimeError" if broken == "raises" else "from . import common"
        install(installs, "transformer_engine", code=code, parts=("common",))
    assert not library("transformer_engine").usable
    for name in ("transformer_engine", "transformer_engine.common"):
        with pytest.raises(ModuleNotFoundError):
            __import__(name)


def test_a_library_is_tried_once(installs: Path) -> None:
    install(installs, "flash_attn", code=f"open({str(installs / 'log')!r}, 'a').write('x')\nraise RuntimeError")
    libraries()
    libraries()
    assert (installs / "log").read_text() == "x"


def test_the_guard_tries_the_libraries_at_megatrons_import_and_leaves(
    installs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installs, "transformer_engine", code="raise RuntimeError")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "megatron.core", raising=False)
    guard_megatron()
    guard_megatron()
    (guard,) = [each for each in sys.meta_path if isinstance(each, _Guard)]
    assert guard.find_spec("megatron", None) is None
    assert library.cache_info().currsize == 0
    assert guard.find_spec("megatron.core", None) is None
    assert sys.modules["transformer_engine"] is None
    assert guard not in sys.meta_path


def test_models_are_built_beside_broken_installs(tmp_path: Path) -> None:
    """Stock Megatron-Core does not import beside either of these."""
    install(tmp_path, "transformer_engine", code="raise RuntimeError('no CUDA')")
    (tmp_path / "apex").mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILDS_A_MODEL],
        env={"PYTHONPATH": f"{tmp_path}:.", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Megatron's local layers, unfused attention, torch's Adam, unfused gradient accumul")
    assert run.stdout.endswith("(Transformer Engine left out (RuntimeError: no CUDA))\n")
