"""Point a Megatron function at the CPU by editing the names it mentions, and nothing outside it.

Megatron writes `device=torch.cuda.current_device()`, `device="cuda"`, `x.cuda()` and compares `p.type()` with
"torch.cuda.FloatTensor". torch offers the same surface as `torch.cpu` (current_device, synchronize, Stream, stream,
current_stream), `"cpu"` and `x.cpu()`. A Python function holds such names and strings in tables of its code object, so

    retarget(function)      # "cuda" -> "cpu", "torch.cuda.FloatTensor" -> "torch.FloatTensor"

swaps the table entries in place. Whoever imported the function sees the change; torch is untouched; the source, its
line numbers and its closures stay as they are. A function that mentions no such name is left alone, and `retarget_all`
raises when nothing in a named place does: then upstream has changed and the patch must be looked at.
"""

import importlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

CUDA_TO_CPU: Mapping[str, str] = {"cuda": "cpu"}


class PatchError(RuntimeError):
    """Megatron-Core does not look as the patch expects."""


def retarget(function: FunctionType, *, words: Mapping[str, str] = CUDA_TO_CPU) -> bool:
    """Replace whole names and strings of `function` by `words`; whether anything changed."""
    code = _rewrite(function.__code__, words)
    defaults = _swap(function.__defaults__, words)
    keyword_defaults = {key: _swap(value, words) for key, value in (function.__kwdefaults__ or {}).items()} or None
    changed = (code, defaults, keyword_defaults) != (
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__ or None,
    )
    if changed:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keyword_defaults
    return changed


def retarget_all(places: tuple[str, ...], *, words: Mapping[str, str] = CUDA_TO_CPU) -> None:
    """Retarget every function of each place: "package.module" or "package.module:Class.method"."""
    for place in places:
        if not [True for function in functions_of(place) if retarget(function, words=words)]:
            raise PatchError(
                f"{place} mentions none of {sorted(words)}: this Megatron-Core needs no such patch, or moved it"
            )


def functions_of(place: str) -> list[FunctionType]:
    """The plain functions behind a place, decorators and descriptors taken off."""
    module_name, _, path = place.partition(":")
    module = importlib.import_module(module_name)
    if not path:
        return list(_functions_in(module))
    owner: Any = module
    for name in path.split("."):
        if name not in vars(owner):
            raise PatchError(f"{module_name} has no {path}: this Megatron-Core moved it")
        owner = vars(owner)[name]
    return list(_functions_in(owner) if isinstance(owner, type) else _unwrap(owner))


def _functions_in(owner: ModuleType | type) -> Iterator[FunctionType]:
    home = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    for value in list(vars(owner).values()):
        if isinstance(value, type):
            if value.__module__ == home and value is not owner:
                yield from _functions_in(value)
        else:
            yield from (function for function in _unwrap(value) if function.__module__ == home)


def _unwrap(value: Any) -> Iterator[FunctionType]:
    """Every function in a chain of decorators (functools.wraps), class and static methods and properties."""
    while value is not None:
        if isinstance(value, FunctionType):
            yield value
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        else:
            value = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None


def _rewrite(code: CodeType, words: Mapping[str, str]) -> CodeType:
    names = tuple(words.get(name, name) for name in code.co_names)
    constants = tuple(_swap(constant, words) for constant in code.co_consts)
    if names == code.co_names and all(new is old for new, old in zip(constants, code.co_consts, strict=True)):
        return code
    return code.replace(co_names=names, co_consts=constants)


def _swap(constant: Any, words: Mapping[str, str]) -> Any:
    """A constant with its words replaced; the very same object where there is nothing to replace."""
    if isinstance(constant, str):
        if constant.startswith("torch.cuda.") and "Tensor" in constant:
            return constant.replace("torch.cuda.", "torch.", 1) if "cuda" in words else constant
        return words.get(constant, constant)
    if isinstance(constant, CodeType):
        return _rewrite(constant, words)
    if isinstance(constant, (tuple, frozenset)):
        swapped = type(constant)(_swap(item, words) for item in constant)
        return constant if swapped == constant else swapped
    return constant
