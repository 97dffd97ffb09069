from tests.distributed.pool import RankPool

JOB = "tests.fusedrl.bench.gpu_jobs:packed_rows"


def test_packed_rows_pass_where_they_are_apart_and_fail_where_they_are_mixed(ranks: RankPool) -> None:
    assert "'tokens': " in ranks.run(JOB, world=1, mixed=False)[0]
    assert ranks.run(JOB, world=1, mixed=True)[0].startswith("FAIL: packed rows: logits lie ")
