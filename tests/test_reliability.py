"""docs/reliability.md names a test for each cell; they exist. And what no run could show: nothing is unpickled."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reliability.md"
SOURCES = sorted((ROOT / "fusedrl").rglob("*.py"))
PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "joblib"}
UNPICKLES = {"torch.load", "torch.save", "np.load", "numpy.load", "multiprocessing.Pipe", "multiprocessing.Queue"}
OF_TORCH = {"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list", "send_object_list"}


def tests() -> set[str]:
    names = (re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) for path in (ROOT / "tests").rglob("*.py"))
    return {name for found in names for name in found}


def test_every_row_names_tests_that_exist() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE.read_text())
    assert len(named) > 25
    assert sorted(set(named) - tests()) == []
    matrix = (ROOT / "tests/faults/test_matrix.py").read_text()
    left_out = [name for name in re.findall(r"^def (test_\w+)", matrix, re.MULTILINE) if name not in named]
    assert left_out == []


def unpickling(tree: ast.AST) -> Iterator[str]:
    """Imports of pickle and its kin, and calls that unpickle what comes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            yield from (module for module in modules if module.split(".")[0] in PICKLES)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in UNPICKLES or (
                name.startswith(("dist.", "torch.distributed.")) and name.split(".")[-1] in OF_TORCH
            ):
                yield name


@pytest.mark.parametrize(
    "text", ["import pickle", "from dill import loads", "torch.load(path)", "dist.all_gather_object(a, b)"]
)
def test_what_unpickles_is_found(text: str) -> None:
    assert list(unpickling(ast.parse(text)))


def test_nothing_is_pickled_or_unpickled() -> None:
    assert len(SOURCES) > 100
    found = {str(path.relative_to(ROOT)): list(unpickling(ast.parse(path.read_text()))) for path in SOURCES}
    assert {name: each for name, each in found.items() if each} == {}
