"""Checks of what is done to scores. Each check returns one line per problem: key, numbers, what would fit."""

from collections.abc import Iterator

from fusedrl.config.schema import PPOConfig

KEY = "algorithm.reward_shaping"


def check_shaping(config: PPOConfig) -> Iterator[str]:
    shaping, limit = config.algorithm.reward_shaping, config.data.max_response_length
    clip, buffer = shaping.clip_range, shaping.overlong_buffer.len
    if clip and not (len(clip) == 2 and clip[0] < clip[1]):
        yield f"{KEY}.clip_range={clip}: give a lower limit and an upper one above it, or [] for none"
    if buffer is not None and buffer > limit:
        yield (
            f"{KEY}.overlong_buffer.len={buffer} exceeds data.max_response_length={limit}; set it to {limit} or less"
        )
    if config.algorithm.adv_estimator == "remax":
        yield from _check_baseline(config)


def _check_baseline(config: PPOConfig) -> Iterator[str]:
    """The greedy response's score is limited as the others are, but neither penalised nor normalised."""
    shaping = config.algorithm.reward_shaping
    asked = {
        "overlong_buffer.len": shaping.overlong_buffer.len is not None,
        "missing_eos_penalty": shaping.missing_eos_penalty > 0,
        "normalize": shaping.normalize,
    }
    for key in (key for key, on in asked.items() if on):
        yield f"{KEY}.{key}: algorithm.adv_estimator=remax compares with a score that is not shaped; leave it out"
