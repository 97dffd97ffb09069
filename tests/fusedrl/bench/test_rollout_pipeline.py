"""On emulated stages several batches in flight are faster than one."""

from fusedrl.bench.rollout_pipeline import Case


def test_batches_in_flight_keep_both_stages_at_work(ranks):
    case = Case(rows=4, new=6, batch_ms=30.0, repeats=2)
    found = ranks.run("fusedrl.bench.rollout_pipeline:figures", world=2, case=case, share=False)[0]
    assert [each["batches"] for each in found] == [1, 2, 3]
    assert found[0]["ratio"] == 1.0
    assert max(each["ratio"] for each in found) > 1.2  # 2 at best
