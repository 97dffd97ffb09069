from fusedrl.pipeline.failure import marked_grid
from schedules.order import Op, Order


def row(count: int, *, stage: int) -> tuple[Op, ...]:
    return tuple(Op("actor", "F", m, stage) for m in range(count))


def test_one_op_of_one_column_is_marked() -> None:
    grid = marked_grid(Order((row(2, stage=0), row(2, stage=1))), column=1, op=Op("actor", "F", 1, 1))
    assert grid.splitlines() == [
        "  column 0: actor:F0@0 actor:F1@0",
        "  column 1: actor:F0@1 >>actor:F1@1<<",
    ]


def test_long_rows_are_cut_around_the_op() -> None:
    order = Order((row(100, stage=0),))
    grid = marked_grid(order, column=0, op=Op("actor", "F", 50, 0), around=1)
    assert grid == "  column 0: ... actor:F49@0 >>actor:F50@0<< actor:F51@0 ..."


def test_without_an_op_the_grid_is_shown_unmarked() -> None:
    assert ">>" not in marked_grid(Order((row(2, stage=0), ())), column=1, op=None)
