from dataclasses import dataclass
from pathlib import Path

import pytest

from fusedrl.bench.arguments import ArgumentError, one_of, read


@dataclass(frozen=True)
class Options:
    problem: Path
    unit_ms: float = 2.0
    repeats: int = 5
    methods: tuple[str, ...] = ("serial",)
    out: Path | None = None
    scale: bool = False


def test_values_take_the_types_of_their_keys() -> None:
    words = ["problem=a/b=c.yaml", "unit_ms=3", "repeats=7", "methods=[x, y]", "out=o.json", "scale=True"]
    assert read(Options, words) == Options(Path("a/b=c.yaml"), 3.0, 7, ("x", "y"), Path("o.json"), True)
    assert read(Options, ["problem=p", "methods=x", "out=null"]) == Options(Path("p"), methods=("x",))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["problem=p", "unit=2"], "unit: no such key; did you mean unit_ms?"),
        (["problem=p", "zzz=2"], "zzz: no such key; there are problem, unit_ms"),
        (["problem"], "problem: write key=value"),
        (["problem=p", "repeats=2.5"], "repeats: '2.5' is not a whole number"),
        (["problem=p", "unit_ms=fast"], "unit_ms: 'fast' is not a number"),
        (["problem=p", "scale=yes"], "scale: 'yes' is unknown; there are true, false"),
        (["problem=p", "problem=q"], "problem: given twice"),
        (["unit_ms=2"], "problem: a value is needed: give problem=VALUE"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_names_the_key(words: list[str], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(Options, words)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_near_names_are_proposed() -> None:
    assert one_of("auto", ("auto", "greedy"), key="methods") == "auto"
    with pytest.raises(ArgumentError, match="methods: 'gredy' is unknown; did you mean greedy"):
        one_of("gredy", ("auto", "greedy"), key="methods")
