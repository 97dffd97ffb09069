"""What is kept of compiled functions: read again as long as it is right, never once a source has changed."""

import ast
import importlib
import os
import re
import sys
from pathlib import Path

import pytest

from schedules.search import compiled

FOLDER = Path(compiled.__file__).parent
CALLER = """
from toy.callee import callee
from toy.compiled import compiled


@compiled
def caller(x):
    return callee(x)
"""
CALLEE = """
from toy.compiled import compiled
from toy.numbers_ import MORE


@compiled
def callee(x):
    return x + MORE
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package of the same build: compiled functions in two files, a number in a third. Call it to load it anew."""
    folder = tmp_path / "toy"
    folder.mkdir()
    files = f"FILES = {('caller.py', 'callee.py', 'numbers_.py')}"
    source = re.sub("^FILES = .*$", files, Path(compiled.__file__).read_text(), flags=re.M)
    (folder / "compiled.py").write_text(source)
    (folder / "__init__.py").touch()
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE)
    (folder / "numbers_.py").write_text("MORE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # its time stamps are too coarse for edits in one second
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))

    def load():
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("toy.caller").caller

    load.folder = folder
    yield load
    forget()


def forget():
    for name in [name for name in sys.modules if name.split(".")[0] == "toy"]:
        del sys.modules[name]


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_is_read_again_where_nothing_changed(toy):
    first = toy()
    assert (first(1), hits(first)) == (2, 0)
    second = toy()
    assert (second(1), hits(second)) == (2, 1)


@pytest.mark.parametrize(
    ("name", "old", "new"), [("callee.py", "x + MORE", "x - MORE"), ("numbers_.py", "MORE = 1", "MORE = -1")]
)
def test_an_edit_of_what_is_compiled_in_is_never_missed(toy, name, old, new):
    assert toy()(1) == 2
    path = toy.folder / name
    text = path.read_text()
    path.write_text(text.replace(old, new))
    assert toy()(1) == 0
    path.write_text(text)
    back = toy()
    assert (back(1), hits(back)) == (2, 1)  # each version has files of its own


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_file_is_compiled_anew(toy, suffix):
    assert toy()(1) == 2
    for path in toy.folder.rglob(f"*.{suffix}"):
        path.write_bytes(path.read_bytes()[:40])
    again = toy()
    assert (again(1), hits(again)) == (2, 0)
    third = toy()
    assert (third(1), hits(third)) == (2, 1)


def test_nothing_is_kept_where_no_folder_can_be_written_to(toy):
    for path in (toy.folder / "__pycache__", toy.folder.parent / "home"):
        path.touch()  # a file in the folder's place: nobody can write there, not even root
    for _ in range(2):
        function = toy()
        assert (function(1), hits(function)) == (2, 0)


def test_files_of_earlier_sources_go_once_something_is_compiled_anew(toy):
    assert toy()(1) == 2
    old = sorted(toy.folder.rglob("*.nb[ic]"))
    assert len(old) == 4  # index and data of two functions
    for path in old:
        os.utime(path, (0, 0))
    assert hits(toy()) == 0  # nothing compiled yet: nothing removed
    assert all(path.exists() for path in old)
    (toy.folder / "numbers_.py").write_text("MORE = 2\n")
    assert toy()(1) == 3
    assert not any(path.exists() for path in old)
    assert len(sorted(toy.folder.rglob("*.nb[ic]"))) == 4


def test_every_file_that_compiled_functions_are_made_of_is_watched():
    """Those that hold compiled functions, and all of this package that they import from."""
    trees = {path.name: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
    holders = {name for name, tree in trees.items() if any(map(is_compiled, ast.walk(tree)))}
    assert {"kernel.py", "longest.py", "moves.py", "tabu_kernel.py"} <= holders
    imported = {file for name in holders for file in imports(trees[name])}
    assert holders | imported | {"compiled.py"} == set(compiled.FILES)


def is_compiled(node):
    return isinstance(node, ast.FunctionDef) and "compiled" in map(ast.unparse, node.decorator_list)


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("schedules"):
            parent, _, name = node.module.rpartition(".")
            assert parent == "schedules.search", f"{node.module}: compiled code draws on files of this folder only"
            yield f"{name}.py"


def test_nothing_of_the_package_is_compiled_another_way():
    root = FOLDER.parent
    assert [p.name for p in root.rglob("*.py") if "njit" in p.read_text()] == ["compiled.py"]
