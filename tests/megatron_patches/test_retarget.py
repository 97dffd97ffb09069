import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any

import pytest

from megatron_patches.retarget import PatchError, functions_of, retarget, retarget_all


class Device:
    """Stands for torch: two backends that answer with their own name."""

    class cuda:
        @staticmethod
        def current_device() -> str:
            return "cuda:0"

    class cpu:
        @staticmethod
        def current_device() -> str:
            return "cpu"


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def asks_backend() -> str:
    return Device.cuda.current_device()


def names_device(device: str = "cuda", *, other: str = "cuda") -> tuple[str, str, str]:
    return device, other, "cuda"


def compares_type(name: str) -> bool:
    return name == "torch.cuda.FloatTensor" or name in ["torch.cuda.HalfTensor", "torch.cuda.BFloat16Tensor"]


def mentions_in_text() -> str:
    return "no cuda device"


def encloses(word: str) -> Callable[[], str]:
    def inner() -> str:
        return word + "cuda"

    return inner


@lru_cache
@decorated
def wrapped_twice() -> str:
    return "cuda"


class Holder:
    kind = "cuda"

    def method(self) -> str:
        return super().__repr__()[:0] + "cuda"

    @classmethod
    def of_class(cls) -> str:
        return "cuda"

    @staticmethod
    def static() -> str:
        return "cuda"

    @property
    def value(self) -> str:
        return "cuda"


HERE = __name__


@pytest.fixture(autouse=True)
def fresh_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test functions that no other has rewritten."""
    for function in (asks_backend, names_device, compares_type, mentions_in_text, encloses):
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            monkeypatch.setattr(function, name, getattr(function, name))


def test_attribute_names_are_replaced() -> None:
    assert retarget(asks_backend)
    assert asks_backend() == "cpu"


def test_constants_and_defaults_are_replaced() -> None:
    assert retarget(names_device)
    assert names_device() == ("cpu", "cpu", "cpu")


def test_tensor_type_names_are_replaced_inside_lists_too() -> None:
    assert retarget(compares_type)
    assert all(map(compares_type, ["torch.FloatTensor", "torch.HalfTensor", "torch.BFloat16Tensor"]))
    assert not compares_type("torch.cuda.FloatTensor")


def test_closures_and_inner_functions_are_replaced_and_still_close() -> None:
    assert retarget(encloses)
    assert encloses("x")() == "xcpu"


def test_text_that_only_mentions_the_word_is_left_alone() -> None:
    code = mentions_in_text.__code__
    assert not retarget(mentions_in_text)
    assert mentions_in_text.__code__ is code


def test_other_words_can_be_given() -> None:
    assert retarget(asks_backend, words={"cuda": "cpu", "current_device": "mro"})
    assert asks_backend() == Device.cpu.mro()


def test_a_second_time_nothing_is_left_to_change() -> None:
    assert retarget(asks_backend)
    assert not retarget(asks_backend)


def test_methods_of_every_kind_are_found() -> None:
    retarget_all((f"{HERE}:Holder",))
    holder = Holder()
    assert [holder.method(), holder.of_class(), holder.static(), holder.value] == ["cpu"] * 4
    assert holder.kind == "cuda"


def test_functions_behind_decorators_are_found() -> None:
    retarget_all((f"{HERE}:wrapped_twice",))
    assert wrapped_twice() == "cpu"


def test_functions_imported_from_elsewhere_are_not_a_modules_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("borrower")
    module.asks_backend = asks_backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "borrower", module)
    assert functions_of("borrower") == []


@pytest.mark.parametrize(("place", "message"), [("mentions_in_text", "mentions none of"), ("gone", "has no gone")])
def test_place_that_looks_otherwise_is_an_error(place: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        retarget_all((f"{HERE}:{place}",))
