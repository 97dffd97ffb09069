"""Prices by hand: the pipeline's closed form, what ZeRO-3 and frozen models add, samples cut into micro-batches."""

from dataclasses import replace

import pytest

from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.price import Pricer
from tests.fusedrl.plan.pricers import llama_pricer, tiny_pricer

NODE = Mesh(0, 8)


@pytest.fixture(scope="module")
def pricer() -> Pricer:
    return llama_pricer("h100_1x8")


def test_training_is_the_pipeline_s_closed_form(pricer: Pricer) -> None:
    way = Way(NODE, tp=2, pp=4, size=4096)
    price, updates = pricer.price(CALLS["actor_train"], way), pricer.work.updates
    times = [forward + backward for forward, backward in price.passes]
    total = sum(times) + (price.microbatches - 1) * max(times)
    assert len(times) == 4
    assert price.parts["compute"] + price.parts["bubble"] == pytest.approx(updates * total, rel=1e-12)
    assert price.parts["compute"] == pytest.approx(updates * price.microbatches * sum(times) / 4, rel=1e-12)
    assert price.parts["gradients"] == 0  # one replica
    assert price.parts["messages"] > 0


def test_recomputation_trades_time_for_memory(pricer: Pricer) -> None:
    plain = Way(NODE, tp=8, size=8192)
    kept, again = (pricer.price(CALLS["actor_train"], replace(plain, recompute=on)) for on in (False, True))
    assert again.parts["compute"] > 1.2 * kept.parts["compute"]
    assert again.running.kinds["activations"] < 0.3 * kept.running.kinds["activations"]
    assert again.held == kept.held


def test_frozen_weights_are_held_or_come_for_the_call(pricer: Pricer) -> None:
    stays, comes = (pricer.price(CALLS["ref"], Way(NODE, tp=8, size=8192, resident=on)) for on in (True, False))
    assert stays.held.total == comes.running.kinds["weights"]
    assert comes.held.total == 0
    assert comes.seconds == stays.seconds + comes.parts["load"]
    assert comes.parts["load"] > 0
    assert stays.running == comes.running


def test_trained_models_infer_without_weights_of_their_own(pricer: Pricer) -> None:
    price = pricer.price(CALLS["actor_logp"], Way(NODE, tp=8, size=8192))
    assert price.held.total == price.running.kinds.get("weights", 0.0) == 0


def test_zero_splits_the_state_and_gathers_it(pricer: Pricer) -> None:
    plain, split = (pricer.price(CALLS["actor_train"], Way(NODE, size=2048, zero=zero)) for zero in (False, True))
    assert split.held.kinds["weights"] == plain.held.kinds["weights"] / 8
    assert split.parts["gradients"] > plain.parts["gradients"]


def test_cut_fills_budgets_and_leaves_no_sample_out(pricer: Pricer) -> None:
    work = pricer.work
    for size in (work.row, 4 * work.row):
        count, tokens = pricer.cut(Way(NODE, size=size), samples=work.mini_batch)
        assert count * tokens == pytest.approx(work.share(8, of=work.mini_batch))
        assert tokens <= size
        assert count <= work.mini_batch // 8


def test_places_of_a_size_are_alike() -> None:
    pricer = tiny_pricer("cpu_1x4")
    first, second = (Way(Mesh(at, 2), tp=2, size=80) for at in (0, 2))
    assert pricer.price(CALLS["ref"], first) is pricer.price(CALLS["ref"], second)


def test_fewer_rows_at_once_need_less_cache_and_more_time(pricer: Pricer) -> None:
    few, many = (pricer.price(CALLS["actor_gen"], Way(NODE, tp=2, size=rows)) for rows in (8, 64))
    assert few.seconds > many.seconds
    assert few.running.kinds["cache"] < many.running.kinds["cache"]
