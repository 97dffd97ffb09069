"""A stage that does not answer ends the others' wait, with its name; tokens come back exactly as they were drawn."""

JOBS = "tests.distributed.rollout_jobs:"


def test_a_stage_that_stays_away_is_named_within_the_limit(ranks, checkpoint):
    (message, seconds), _ = ranks.run(
        JOBS + "last_stage_stays_away", world=2, folder=checkpoint("llama"), timeout_s=1.0
    )
    assert message.startswith("generation: stage 0 waited for stage 1 (rank 1), limit 1 s:")
    assert 0.5 < seconds < 30


def test_tokens_and_log_probs_come_back_unchanged_on_every_stage(ranks):
    results = ranks.run(JOBS + "tokens_through_links", world=3)
    assert results[0] == results[1] == results[2]
    assert results[0] == [([2**40 + turn, 3], [-(turn + 1) / 10, -1e-30]) for turn in range(4)]
