"""After a hand-over every generation rank holds the trained weights, and generates what Hugging Face generates."""

import pytest

from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams
from tests.fusedrl.rollout import tiny

JOBS = "tests.distributed.rollout_jobs:"
PROMPTS = [(1, 2, 3), (50, 290), tuple(range(10, 25))]
GREEDY = SamplingParams(temperature=0, max_tokens=6)
SOURCES = {
    "pp2xdp2": {"layout": {"pp": 2, "dp": 2}},
    "tp2xpp2": {"layout": {"tp": 2, "pp": 2}},
    "pp4": {"layout": {"pp": 4}},
    "reversed_pp4": {"layout": {"pp": 4}, "reverse": True},
    "reversed_tp2xpp2": {"layout": {"tp": 2, "pp": 2}, "reverse": True},
    "v_tp2xpp2": {"layout": {"tp": 2, "pp": 2}, "placement": "v"},
    "interleaved_pp2xdp2": {"layout": {"pp": 2, "dp": 2}, "placement": "interleaved"},
    "uneven_reversed_tp2xpp2": {"layout": {"tp": 2, "pp": 2}, "reverse": True, "layers": (1, 3)},
}


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("source", list(SOURCES))
def test_weights_and_tokens_equal_the_sources(ranks, checkpoint, source, tp):
    # a vocabulary of 300: 384 rows with tp 1, 512 with tp 2
    family = "llama_tied_mha" if source == "pp2xdp2" else "qwen2"
    folder = checkpoint(family)
    results = ranks.run(
        JOBS + "hand_over_and_generate",
        world=4,
        folder=folder,
        requests=samples_of(PROMPTS, n=1, params=GREEDY),
        source=SOURCES[source],
        tp=tp,
    )
    expected = tiny.hugging_face_greedy(folder, PROMPTS, tokens=GREEDY.max_tokens)
    for completions, facts in results:
        assert facts["unequal"] == []
        assert facts["unequal_again"] == []
        assert [list(c.tokens) for c in completions] == [tokens for tokens, _ in expected]
    reports = [facts["report"] for _, facts in results]
    assert sum(r["bytes_sent"] for r in reports) == sum(r["bytes_received"] for r in reports) > 0


@pytest.mark.parametrize(
    ("source", "family", "tp", "pp"),
    [
        ("pp2xdp2", "llama_tied_mha", 1, 2),
        ("v_tp2xpp2", "qwen3_moe", 2, 2),
        ("reversed_pp4", "qwen3_tied", 1, 4),
    ],
)
def test_a_generating_pipeline_takes_weights_from_any_layout(ranks, checkpoint, source, family, tp, pp):
    folder = checkpoint(family)
    asked = {"folder": folder, "requests": samples_of(PROMPTS, n=1, params=GREEDY), "source": SOURCES[source]}
    expected = tiny.hugging_face_greedy(folder, PROMPTS, tokens=GREEDY.max_tokens)
    for completions, facts in ranks.run(JOBS + "hand_over_and_generate", world=4, tp=tp, pp=pp, **asked):
        assert facts["unequal"] == facts["unequal_again"] == []
        assert [list(c.tokens) for c in completions] == [tokens for tokens, _ in expected]


@pytest.mark.parametrize("tp", [1, 2])
def test_reversed_critic_equals_the_source(ranks, checkpoint, tp):
    assert ranks.run(JOBS + "hand_over_value_model", world=4, folder=checkpoint("llama"), tp=tp) == [[]] * 4


def test_same_layout_sends_nothing(ranks, checkpoint):
    results = ranks.run(
        JOBS + "hand_over_and_generate",
        world=2,
        folder=checkpoint("qwen3"),
        requests=[],
        source={"layout": {"tp": 2}},
        tp=2,
    )
    for _, facts in results:
        assert facts["unequal"] == []
        assert facts["report"]["bytes_sent"] == facts["report"]["bytes_received"] == 0
        assert facts["report"]["bytes_copied"] > 0


def test_small_rounds_equal_one_round(ranks, checkpoint):
    kwargs = {"world": 4, "folder": checkpoint("qwen2"), "source": {"tp": 2, "pp": 2}, "tp": 1}
    for bucket_bytes in (1, 5000):
        for unequal, rounds in ranks.run(JOBS + "hand_over_in_rounds", bucket_bytes=bucket_bytes, **kwargs):
            assert unequal == []
            assert rounds > 1
