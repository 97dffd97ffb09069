import pytest

from fusedrl.config.check_shaping import check_shaping
from tests.fusedrl.config.conftest import ppo

SHAPING = "algorithm.reward_shaping"


@pytest.mark.parametrize(
    ("override", "start"),
    [
        ("clip_range=[1]", "clip_range=[1.0]: give a lower limit and an upper one above it"),
        ("clip_range=[2,1]", "clip_range=[2.0, 1.0]: give a lower limit"),
        ("overlong_buffer.len=9", "overlong_buffer.len=9 exceeds data.max_response_length=8; set it to 8 or less"),
    ],
)
def test_limits_and_buffers_that_make_no_sense_are_one_line(override: str, start: str) -> None:
    (found,) = check_shaping(ppo(f"{SHAPING}.{override}", "data.max_response_length=8"))
    assert found.startswith(f"{SHAPING}.{start}")


def test_what_remax_cannot_compare_is_refused_and_limits_are_not() -> None:
    keys = {"overlong_buffer.len": 2, "missing_eos_penalty": 1, "normalize": "true"}
    asked = [f"{SHAPING}.{key}={value}" for key, value in keys.items()]
    found = check_shaping(ppo("algorithm=remax", f"{SHAPING}.clip_range=[-1,1]", *asked))
    assert [line.partition(":")[0] for line in found] == [f"{SHAPING}.{key}" for key in keys]
    assert not list(check_shaping(ppo(*asked, f"{SHAPING}.clip_range=[-1,1]")))
