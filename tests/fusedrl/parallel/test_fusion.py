from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.parallel.fusion import NO_COLUMN, Copy, Fusion, Spread, fuse
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import SHAPES, place_stages


@dataclass(frozen=True)
class Lying:
    """A model by its layout."""

    layout: Layout
    placement: tuple[int, ...]

    @property
    def spread(self) -> Spread:
        return Spread.of(self.layout, self.placement)

    def stage_ranks(self, rank: int, stage: int) -> list[int]:
        """The ranks of one stage of the replica that a rank works for, that with its own coordinates first."""
        tp_i, dp_i, *_ = self.layout.coords(rank)
        turned = [(tp_i + step) % self.layout.tp for step in range(self.layout.tp)]
        return [self.layout.rank(tp_i=each, dp_i=dp_i, pp_i=self.placement[stage]) for each in turned]


def layouts(world: int) -> list[Layout]:
    sizes = [size for size in range(1, world + 1) if world % size == 0]
    return [Layout(tp=tp, pp=pp, dp=world // (tp * pp)) for tp in sizes for pp in sizes if world % (tp * pp) == 0]


@st.composite
def models_on_one_world(draw: st.DrawFn) -> dict[str, Lying]:
    world = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
    found = {}
    for name in ("actor", "critic", "ref")[: draw(st.integers(1, 3))]:
        layout, shape = draw(st.sampled_from(layouts(world))), draw(st.sampled_from(SHAPES))
        found[name] = Lying(layout, place_stages(layout.pp, shape=shape, reverse=draw(st.booleans())))
    return found


def fused(models: dict[str, Lying]) -> Fusion:
    return fuse({name: each.spread for name, each in models.items()})


def columns_of(fusion: Fusion, rank: int, model: str, stage: int) -> tuple[int, ...]:
    (copy,) = [each for each in fusion.copies if each.name == fusion.copy_of[rank][model]]
    found = copy.placement[stage]
    return (found,) if isinstance(found, int) else found


@given(models_on_one_world())
def test_every_rank_has_a_column_and_a_copy_of_each_model(models: dict[str, Lying]) -> None:
    fusion = fused(models)
    world = models["actor"].layout.world
    assert len(fusion.column_of) == len(fusion.copy_of) == world
    assert set(fusion.column_of) == set(range(fusion.columns))
    assert all(set(copies) == set(models) for copies in fusion.copy_of)
    assert len({copy.name for copy in fusion.copies}) == len(fusion.copies)


@given(models_on_one_world())
def test_a_stage_of_a_copy_is_on_the_columns_of_its_ranks_and_these_hold_it_alone(models: dict[str, Lying]) -> None:
    fusion = fused(models)
    for name, model in models.items():
        for rank in range(model.layout.world):
            for stage in range(len(model.placement)):
                own = columns_of(fusion, rank, name, stage)
                members = model.stage_ranks(rank, stage)
                assert {fusion.column_of[member] for member in members} == set(own)
                assert {fusion.copy_of[member][name] for member in members} == {fusion.copy_of[rank][name]}
                assert (fusion.column_of[rank] in own) == (rank in members)


@given(models_on_one_world())
def test_a_column_sends_to_one_column_the_ith_of_a_stage_to_the_ith_of_the_next(models: dict[str, Lying]) -> None:
    fusion = fused(models)
    for name, model in models.items():
        for rank in range(model.layout.world):
            places = set()
            for stage in range(len(model.placement)):
                own_column = fusion.column_of[model.stage_ranks(rank, stage)[0]]
                places.add(columns_of(fusion, rank, name, stage).index(own_column))
            assert len(places) == 1


@given(models_on_one_world())
def test_ranks_of_one_column_and_group_hold_like_work(models: dict[str, Lying]) -> None:
    """They have the same copies; where it is the same group the same replicas: a message's ranks are in one group."""
    fusion = fused(models)
    like: dict[tuple[int, str, str], set[tuple[int, ...]]] = {}
    for name, model in models.items():
        for rank in range(model.layout.world):
            held = tuple(s for s in range(len(model.placement)) if rank in model.stage_ranks(rank, s))
            like.setdefault((fusion.column_of[rank], name, fusion.copy_of[rank][name]), set()).add(held)
    assert all(len(stages) == 1 for stages in like.values())
    columns = {(column, name) for column, name, _ in like}
    assert len(like) == len(columns)  # a column works for one copy of a model


@given(models_on_one_world())
def test_the_ith_rank_of_a_stage_in_all_groups_sends_to_the_ith_of_the_next(models: dict[str, Lying]) -> None:
    """What timelines go by, which know ops and ranks alone."""
    fusion = fused(models)
    for name, model in models.items():
        for copy in fusion.copies_of(name):
            mine = [rank for rank, of in enumerate(fusion.copy_of) if of[name] == copy.name]
            stages = [[r for r in mine if r in model.stage_ranks(r, s)] for s in range(len(model.placement))]
            for i, rank in enumerate(stages[0]):
                assert [each[i] for each in stages] == [model.stage_ranks(rank, s)[0] for s in range(len(stages))]


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.sampled_from(SHAPES))
def test_equal_layouts_are_fused_column_by_column(tp: int, pp: int, dp: int, shape: str) -> None:
    layout = Layout(tp=tp, pp=pp, dp=dp)
    actor, critic = (Lying(layout, place_stages(pp, shape=shape, reverse=reverse)) for reverse in (False, True))
    fusion = fused({"actor": actor, "critic": critic})
    assert fusion.copies == (Copy("actor", "actor", actor.placement), Copy("critic", "critic", critic.placement))
    assert list(fusion.column_of) == [layout.coords(rank)[2] for rank in range(layout.world)]
    assert not fusion.is_shared("actor")


PAIRS = {
    "critic half as deep": ((1, 4, 1), (1, 2, 2), [(0, 1, 2, 3)], [(2, 0), (3, 1)]),
    "actor half as deep": ((1, 2, 2), (1, 4, 1), [(0, 2), (1, 3)], [(3, 2, 1, 0)]),
    "actor on two columns": ((2, 2, 1), (1, 2, 2), [((0, 1), (2, 3))], [(2, 0), (3, 1)]),
    "critic on two columns": ((1, 2, 2), (2, 2, 1), [(0, 2), (1, 3)], [((2, 3), (0, 1))]),
    "two beside four": ((2, 2, 1), (1, 4, 1), [((0, 1), (2, 3))], [(3, 2, 1, 0)]),
    "two groups": ((2, 2, 2), (2, 4, 1), [(0, 2), (1, 3)], [(3, 2, 1, 0)]),
    "apart": ((1, 1, 4), (1, 4, 1), [(0,), (1,), (2,), (3,)], [(3, 2, 1, 0)]),
}


@pytest.mark.parametrize(("actor", "critic", "of_actor", "of_critic"), PAIRS.values(), ids=PAIRS)
def test_replicas_lie_where_their_ranks_are(
    actor: tuple[int, int, int], critic: tuple[int, int, int], of_actor: list[object], of_critic: list[object]
) -> None:
    fusion = fused(
        {
            name: Lying(Layout(*sizes), place_stages(sizes[1], reverse=name == "critic"))
            for name, sizes in (("actor", actor), ("critic", critic))
        }
    )
    assert [copy.placement for copy in fusion.copies_of("actor")] == of_actor
    assert [copy.placement for copy in fusion.copies_of("critic")] == of_critic
    assert fusion.is_shared("critic") == (len(of_critic) > 1)
    assert [copy.name for copy in fusion.copies_of("critic")] == (
        ["critic0", "critic1"] if len(of_critic) > 1 else ["critic"]
    )


def test_groups_share_one_program() -> None:
    """Ranks 0, 2, 4, 6 and 1, 3, 5, 7 are two groups."""
    fusion = fused({"actor": Lying(Layout(pp=2, dp=4), (0, 1)), "critic": Lying(Layout(pp=4, dp=2), (3, 2, 1, 0))})
    assert fusion.column_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert [copies["actor"] for copies in fusion.copy_of] == ["actor0", "actor0", "actor1", "actor1"] * 2
    assert {copies["critic"] for copies in fusion.copy_of} == {"critic"}


def test_tensor_sizes_that_do_not_divide_each_other_get_a_column_for_each_rank() -> None:
    """Three pairs against two triples: a pair shares a triple or lies across both."""
    fusion = fused({"actor": Lying(Layout(tp=2, pp=3), (0, 1, 2)), "critic": Lying(Layout(tp=3, pp=2), (1, 0))})
    assert fusion.column_of == tuple(range(6))
    assert [copy.placement for copy in fusion.copies] == [((0, 1), (2, 3), (4, 5)), ((3, 4, 5), (0, 1, 2))]


def test_context_parallel_ranks_are_ranks_of_a_stage() -> None:
    context, tensor = Layout(cp=2, pp=2), Layout(tp=2, pp=2)
    assert Spread.of(context, (0, 1)) == Spread.of(tensor, (0, 1))


def lying_on(sizes: tuple[int, int, int], ranks: Sequence[int], *, reverse: bool = False) -> Spread:
    layout = Layout(*sizes)
    return Spread.of(layout, place_stages(layout.pp, reverse=reverse), ranks=ranks)


def test_models_on_disjoint_ranks_are_joined_replica_by_replica() -> None:
    """Two replicas of two stages on 0 to 3, four of one rank on 4 to 7: two groups of one and two replicas."""
    fusion = fuse({"a": lying_on((1, 2, 2), range(4)), "b": lying_on((1, 1, 4), range(4, 8))})
    assert fusion.column_of == (0, 0, 1, 1, 2, 3, 2, 3)
    assert fusion.copies == (Copy("a", "a", (0, 1)), Copy("b0", "b", (2,)), Copy("b1", "b", (3,)))
    assert [tuple(copies.values()) for copies in fusion.copy_of[4:]] == [("b0",), ("b1",), ("b0",), ("b1",)]


def test_models_with_one_rank_in_common_are_one_group_and_the_others_take_no_part() -> None:
    fusion = fuse({"a": lying_on((1, 2, 1), (1, 2)), "b": lying_on((1, 2, 1), (2, 4), reverse=True)})
    assert fusion.column_of == (NO_COLUMN, 0, 1, NO_COLUMN, 2)
    assert fusion.copies == (Copy("a", "a", (0, 1)), Copy("b", "b", (2, 1)))
    assert [fusion.takes_part(rank) for rank in range(6)] == [False, True, True, False, True, False]


def test_groups_that_cannot_be_joined_evenly_are_one() -> None:
    """Three ranks with one model each, of which one holds two replicas and another shares one."""
    uneven = Spread((((0, 1),), ((2,),)), (0,))
    fusion = fuse({"a": Spread(tuple(((rank,),) for rank in range(3)), (0,)), "b": uneven})
    assert fusion.column_of == (0, 1, 2)
    assert [copy.placement for copy in fusion.copies_of("b")] == [((0, 1),), (2,)]


@given(models_on_one_world(), st.data())
def test_a_stage_lies_on_its_ranks_wherever_models_lie(models: dict[str, Lying], data: st.DataObject) -> None:
    """Each model on ranks of its own choice; a rank runs exactly the stages that it holds."""
    world = models["actor"].layout.world
    everyone = st.permutations(range(2 * world))
    on = {name: sorted(data.draw(everyone)[:world]) for name in models}
    spreads = {name: Spread.of(each.layout, each.placement, ranks=on[name]) for name, each in models.items()}
    fusion = fuse(spreads)
    for name, model in models.items():
        for place, rank in enumerate(on[name]):
            assert name in fusion.copy_of[rank]
            for stage in range(len(model.placement)):
                own = columns_of(fusion, rank, name, stage)
                members = [on[name][member] for member in model.stage_ranks(place, stage)]
                assert {fusion.column_of[member] for member in members} == set(own)
                assert {fusion.copy_of[member][name] for member in members} == {fusion.copy_of[rank][name]}
        assert {rank for rank, held in enumerate(fusion.copy_of) if name in held} == set(on[name])
