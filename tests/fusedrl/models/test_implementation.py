from typing import Any

import pytest
from megatron.core.transformer.enums import AttnBackend

from fusedrl.libraries import Library
from fusedrl.models import implementation
from fusedrl.models.implementation import Implementation, check_rows, choose

ALL = ("transformer_engine", "flash_attn", "apex", "fused_weight_gradient_mlp_cuda")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> "Machine":
    return Machine(monkeypatch)


class Machine:
    """A GPU machine with these libraries, as far as `choose` looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def has(self, *names: str) -> None:
        found = {name: Library(name, version="1.0") for name in names}
        self._monkeypatch.setattr(implementation, "library", lambda name: found.get(name, Library(name)))


def test_auto_takes_what_is_there(machine: Machine) -> None:
    machine.has(*ALL)
    chosen = choose(Implementation(), cuda=True)
    assert (chosen.transformer_engine, chosen.gradient_accumulation_fusion) == (True, True)
    assert chosen.attention_backend == AttnBackend.auto
    assert chosen.line().startswith("Transformer Engine's layers, auto attention, ")
    assert chosen.line().endswith("fused gradient accumulation")


def test_auto_takes_megatrons_own_path_where_nothing_is_there_and_says_so(machine: Machine) -> None:
    machine.has()
    chosen = choose(Implementation(), cuda=True)
    assert (chosen.transformer_engine, chosen.gradient_accumulation_fusion) == (False, False)
    assert chosen.line().startswith("Megatron's local layers, unfused attention, ")
    assert chosen.line().endswith("unfused gradient accumulation (Transformer Engine absent)")


def test_nothing_is_taken_without_a_gpu(machine: Machine) -> None:
    machine.has(*ALL)
    chosen = choose(Implementation(), cuda=False)
    assert (chosen.transformer_engine, chosen.gradient_accumulation_fusion) == (False, False)
    assert chosen.reasons == ("Transformer Engine 1.0 needs a GPU",)


def test_what_is_asked_away_is_not_taken(machine: Machine) -> None:
    machine.has(*ALL)
    chosen = choose(Implementation(transformer_impl="local", gradient_accumulation_fusion=False), cuda=True)
    assert (chosen.transformer_engine, chosen.gradient_accumulation_fusion) == (False, False)
    assert chosen.reasons == ()


@pytest.mark.parametrize("backend", ["flash", "fused", "unfused"])
def test_the_asked_attention_reaches_megatron(machine: Machine, backend: str) -> None:
    machine.has(*ALL)
    assert choose(Implementation(attention_backend=backend), cuda=True).attention_backend == AttnBackend[backend]


def test_local_layers_leave_transformer_engines_environment_alone(machine: Machine) -> None:
    machine.has(*ALL)
    asked = Implementation(transformer_impl="local", attention_backend="unfused")
    assert choose(asked, cuda=True).attention_backend == AttnBackend.auto


@pytest.mark.parametrize(
    ("there", "asked", "message"),
    [
        (
            (),
            Implementation(transformer_impl="transformer_engine"),
            "m.transformer_impl=transformer_engine: Transformer Engine absent",
        ),
        ((), Implementation(attention_backend="fused"), "m.attention_backend=fused: Megatron's local layers"),
        (("transformer_engine",), Implementation(attention_backend="flash"), "m.attention_backend=flash: flash-attn"),
        (
            ALL,
            Implementation(transformer_impl="local", attention_backend="flash"),
            "m.attention_backend=flash: .*transformer_impl=local",
        ),
        (
            ("transformer_engine",),
            Implementation(gradient_accumulation_fusion=True),
            "m.gradient_accumulation_fusion=true: apex's weight-gradient kernel absent",
        ),
        (ALL, Implementation(transformer_impl="te"), "m.transformer_impl='te' is not one of auto, local"),
        (ALL, Implementation(attention_backend="paged"), "m.attention_backend='paged' is not one of auto, flash"),
    ],
)
def test_what_is_asked_for_and_not_there_is_one_line_with_the_key(
    machine: Machine, there: tuple[str, ...], asked: Implementation, message: str
) -> None:
    machine.has(*there)
    with pytest.raises(ValueError, match=message):
        choose(asked, key="m", cuda=True)


@pytest.mark.parametrize("key", ["transformer_impl", "gradient_accumulation_fusion"])
def test_gpu_libraries_cannot_be_asked_for_on_cpu_ranks(machine: Machine, key: str) -> None:
    machine.has(*ALL)
    value = "transformer_engine" if key == "transformer_impl" else True
    with pytest.raises(ValueError, match="needs a GPU; install it"):
        choose(Implementation(**{key: value}), cuda=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "told"),
    [({"cp": 2, "packed": False}, "context_parallel_size=2"), ({"cp": 1, "packed": True}, "use_remove_padding=true")],
)
def test_unfused_attention_of_transformer_engine_takes_whole_rows_alone(
    machine: Machine, rows: dict[str, Any], told: str
) -> None:
    machine.has(*ALL)
    unfused = choose(Implementation(attention_backend="unfused"), cuda=True)
    with pytest.raises(ValueError, match=f"^actor.attention_backend=unfused: .* does not take actor.{told}"):
        check_rows(unfused, **rows, key="actor")
    check_rows(unfused, cp=1, packed=False)
    check_rows(choose(Implementation(), cuda=True), **rows)
    check_rows(choose(Implementation(transformer_impl="local", attention_backend="unfused"), cuda=True), **rows)


def test_layers_with_experts_are_megatrons_own() -> None:
    assert not choose(Implementation(), cuda=True, experts=True).transformer_engine
    with pytest.raises(ValueError, match=r"ref\.transformer_impl=transformer_engine: layers with experts"):
        choose(Implementation(transformer_impl="transformer_engine"), key="ref", experts=True)
