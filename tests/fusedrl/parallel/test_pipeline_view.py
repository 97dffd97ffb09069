from fusedrl.parallel.pipeline_view import ReversedGroup, plain


class FourRanks:
    """Stands for a process group of four, seen from rank 1."""

    group_name = "four"

    def rank(self) -> int:
        return 1

    def size(self) -> int:
        return 4


def test_rank_is_mirrored_and_the_rest_is_the_groups_own() -> None:
    view = ReversedGroup(FourRanks())  # type: ignore[arg-type]
    assert (view.rank(), view.size(), view.group_name) == (2, 4, "four")


def test_plain_takes_the_view_off() -> None:
    group = FourRanks()
    assert plain(ReversedGroup(group)) is group  # type: ignore[arg-type]
    assert plain(group) is group  # type: ignore[arg-type]
