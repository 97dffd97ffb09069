import pytest

from fusedrl.parallel.placement import SHAPES, place_stages, stages_a_column
from schedules.placement import place
from schedules.problem import Model, Problem


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_stages_lie_as_the_schedules_place_them(shape: str, reverse: bool) -> None:
    line = place_stages(4, reverse=reverse)
    problem = Problem(ranks=4, models=(Model("actor", line, 2, forward=1.0),))
    assert place_stages(4, shape=shape, reverse=reverse) == place(problem, shape=shape).models[0].placement
    assert len(place_stages(4, shape=shape)) == 4 * stages_a_column(shape)


def test_reversed_line_starts_on_the_last_column() -> None:
    assert place_stages(3, reverse=True) == (2, 1, 0)


def test_unknown_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="placement='w' is not one of line, v, interleaved"):
        place_stages(2, shape="w")
