"""Where a model's stages lie: the pipeline column of each stage. Plain arithmetic, no torch.

shape         pp=4                        reversed
line          0 1 2 3                     3 2 1 0
v             0 1 2 3 3 2 1 0             3 2 1 0 0 1 2 3       two stages a column, both ends of the model on one
interleaved   0 1 2 3 0 1 2 3             3 2 1 0 3 2 1 0       two stages a column, two rounds
"""

SHAPES = ("line", "v", "interleaved")


def place_stages(pp: int, *, shape: str = "line", reverse: bool = False) -> tuple[int, ...]:
    """The column of each stage of a model on `pp` columns."""
    if shape not in SHAPES:
        raise ValueError(f"placement={shape!r} is not one of {', '.join(SHAPES)}")
    line = tuple(range(pp))[::-1] if reverse else tuple(range(pp))
    return {"line": line, "v": line + line[::-1], "interleaved": line + line}[shape]


def stages_a_column(shape: str) -> int:
    """How many stages of a model a column holds."""
    return len(place_stages(1, shape=shape))
