from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.parallel.agreed import AgreedError
from fusedrl.trainers import skipping
from fusedrl.trainers.skipping import check_skipped, skipped_in_a_row


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(("limit", "ends"), [(2, True), (3, True), (4, False), (None, False)])
def test_a_row_of_skipped_updates_ends_the_run_at_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, ends: bool, leads: bool
) -> None:
    monkeypatch.setattr(skipping, "leads", lambda: leads)
    options: dict[str, Any] = {"limit": limit, "step": 7, "stays": "the state of step 4 stays the last good one"}
    if not ends:
        return check_skipped({"actor": 0, "critic": 3}, **options)
    with pytest.raises(AgreedError) as raised:
        check_skipped({"actor": 0, "critic": 3}, **options)
    assert str(raised.value).startswith("critic: the gradients of its last 3 updates, up to step 7, were not finite")
    assert f"trainer.max_skipped_updates={limit}" in str(raised.value)
    assert "the state of step 4 stays the last good one" in str(raised.value)
    assert raised.value.tells == leads


def test_every_rank_knows_of_the_models_that_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipping, "all_gather_object", lambda mine: [mine, {"critic": 5}])
    held: Any = {"actor": SimpleNamespace(skipped_in_a_row=1)}
    assert skipped_in_a_row(held) == {"actor": 1, "critic": 5}
