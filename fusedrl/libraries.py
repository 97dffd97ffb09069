"""The optional GPU libraries: which are there, which are broken, and how Megatron-Core is kept from the broken ones.

    libraries = {"transformer_engine": "Transformer Engine 2.8.0", "apex": "apex absent", ...}

Megatron-Core takes a library as absent where its import raises ImportError, and fails with it where anything else goes
wrong: Transformer Engine raises RuntimeError without CUDA, an uninstalled one may leave an empty folder that imports as
a package without content, and PyPI's `apex` is another project. `guard_megatron` makes all these absent: just before
Megatron-Core is first imported, whoever imports it, each library is tried, and a broken one is hidden from the process.

No torch here: a machine without these libraries pays nothing.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType

# library -> its title, and the parts without which Megatron-Core cannot use it
TITLES = {
    "transformer_engine": "Transformer Engine",
    "flash_attn": "flash-attn",
    "apex": "apex",
    "fused_weight_gradient_mlp_cuda": "apex's weight-gradient kernel",
}
PARTS = {
    "transformer_engine": ("transformer_engine.pytorch",),
    "flash_attn": (),
    "apex": ("apex.optimizers", "amp_C"),
    "fused_weight_gradient_mlp_cuda": (),
}


@dataclass(frozen=True)
class Library:
    """What was found of a library. version: None where it cannot be used. problem: why not, where it is installed."""

    name: str
    version: str | None = None
    problem: str = ""

    @property
    def usable(self) -> bool:
        return self.version is not None

    def __str__(self) -> str:
        title = TITLES[self.name]
        if self.usable:
            return f"{title} {self.version}"
        return f"{title} left out ({self.problem})" if self.problem else f"{title} absent"


@cache
def library(name: str) -> Library:
    """The state of one library, tried once a process; a broken one is hidden from then on."""
    found = _tried(name)
    if found.problem:
        _hide(name)
    return found


def libraries() -> tuple[Library, ...]:
    """The state of all of them."""
    return tuple(library(name) for name in TITLES)


def guard_megatron() -> None:
    """The first import of Megatron-Core tries the libraries before. Does nothing where it is imported already."""
    if "megatron.core" not in sys.modules and not any(isinstance(each, _Guard) for each in sys.meta_path):
        sys.meta_path.insert(0, _Guard())


class _Guard:
    """An import finder that finds nothing: it sees Megatron-Core's first import, and then it is gone."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "megatron.core":
            sys.meta_path.remove(self)
            libraries()
        return None


def _tried(name: str) -> Library:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        return Library(name, problem=_told(error))
    if spec is None:
        return Library(name)
    if spec.origin is None:  # a folder without __init__.py
        places = ", ".join(spec.submodule_search_locations or ())
        return Library(name, problem=f"{places} is a leftover folder without the package: remove it")
    try:
        for module in (name, *PARTS[name]):
            importlib.import_module(module)
    except Exception as error:  # a broken install raises anything: RuntimeError, OSError, AttributeError
        return Library(name, problem=_told(error))
    return Library(name, version=_version(name))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules[name], "__version__", "of unknown version"))


def _hide(name: str) -> None:
    """Importing it raises ModuleNotFoundError from now on, as if it were not installed."""
    for module in [each for each in sys.modules if each.startswith(f"{name}.")]:
        del sys.modules[module]
    sys.modules[name] = None  # type: ignore[assignment]


def _told(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
