import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.models.options import Recompute


@given(st.integers(1, 12), st.integers(1, 15))
def test_inputs_kept_are_those_of_the_units_that_are_computed_again(layers: int, each: int) -> None:
    units = len(range(0, layers, each))
    assert Recompute("full", "uniform", each).kept_layers(layers) == (units, 0)
    assert Recompute("full", "uniform", each).layers_again(layers) == layers
    kept = [number for number in range(layers) if number >= each]
    assert Recompute("full", "block", each).kept_layers(layers) == (layers - len(kept), len(kept))
    assert Recompute("full", "block", each).layers_again(layers) == layers - len(kept)
    assert Recompute("selective", "block", each).kept_layers(layers) == (0, layers)
    assert Recompute("selective").layers_again(layers) == 0


@given(st.integers(1, 12), st.integers(1, 15))
def test_units_that_do_not_divide_a_stage_are_told(layers: int, each: int) -> None:
    found = Recompute("full", "uniform", each).misfit(layers)
    assert (found is None) == (layers % each == 0)
    assert found is None or f"={each} does not divide the {layers} layers" in found
    assert Recompute("full", "block", each).misfit(layers) is None
    assert Recompute("selective", "uniform", each).misfit(layers) is None


def test_unknown_names_and_no_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="recompute_granularity='some'"):
        Recompute("some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="recompute_method='all'"):
        Recompute("full", "all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="recompute_num_layers=0"):
        Recompute("full", "uniform", 0)
