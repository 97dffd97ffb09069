import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.models.stage_layers import EACH, FIRST, LAST, StageLayers

SOME = st.none() | st.integers(1, 6)


@given(SOME, SOME, st.integers(1, 6), st.integers(1, 24))
def test_layers_add_up_or_are_refused(first: int | None, last: int | None, stages: int, total: int) -> None:
    shares = StageLayers(first, last)
    ends = [value for value in (first, last) if value is not None]
    others, rest = stages - len(ends), total - sum(ends)
    fits = rest >= others and rest % others == 0 if others > 0 else others == 0 == rest
    try:
        layers = shares.over(stages, total=total)
    except ValueError:
        assert not fits
        return
    assert fits
    assert (len(layers), sum(layers)) == (stages, total)
    assert min(layers) >= 1
    assert first in (None, layers[0])
    assert last in (None, layers[-1])
    assert len(set(layers[first is not None : stages - (last is not None)])) <= 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_listed_layers_are_taken_as_they_are(each: list[int]) -> None:
    assert StageLayers(each=tuple(each)).over(len(each), total=sum(each)) == tuple(each)


@pytest.mark.parametrize(
    ("shares", "stages", "message"),
    [
        (StageLayers(each=(3, 5)), 2, f"{EACH}=[3, 5] makes 8 layers, the model has 6"),
        (StageLayers(each=(3, 3)), 3, f"{EACH}=[3, 3] has 2 numbers, the model has 3 stages"),
        (StageLayers(each=(0, 6)), 2, f"{EACH}=[0, 6] leaves a stage without a layer"),
        (StageLayers(first=2, each=(3, 3)), 2, f"{EACH}=[3, 3] tells all stages; leave {FIRST} and {LAST} out"),
        (StageLayers(2, 2), 2, f"{FIRST}=2 and {LAST}=2 is all of 4 layers, the model has 6; make them 6 together"),
        (StageLayers(first=2), 1, f"{FIRST}=2 is all of 2 layers, the model has 6; leave it null"),
        (StageLayers(first=3), 3, f"{FIRST}=3 leaves 3 of 6 layers, which the other 2 stages cannot share evenly"),
        (StageLayers(last=5), 3, f"{LAST}=5 leaves 1 of 6 layers, which the other 2 stages"),
        (StageLayers(3, 3), 1, f"{FIRST}=3 and {LAST}=3 are stages of their own, there is 1"),
    ],
)
def test_what_does_not_fit_is_told_with_both_numbers(shares: StageLayers, stages: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        shares.over(stages, total=6)
