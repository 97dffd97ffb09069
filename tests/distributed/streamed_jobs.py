"""A built-in engine as an instance of a stream, with samples on their way to another."""

from dataclasses import asdict
from typing import Any

from fusedrl.rollout.requests import samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.streamed import StreamedEngine
from tests.distributed.rollout_jobs import engine_of


def move_some(folder: str) -> dict[str, Any]:
    """Tokens with a move after two steps and without one; what was moved and measured."""
    params = SamplingParams(max_tokens=6, seed=2)
    requests = samples_of([(5, 6, 7), (8, 9)], n=2, params=params)
    plain = engine_of(folder).generate(requests)
    source, target = StreamedEngine(engine_of(folder, max_rows=3)), StreamedEngine(engine_of(folder))
    source.add(requests)  # the last one waits for a row and has no keys yet
    done = source.step() + source.step()
    given, moved, packed = source.extract_cached([0, 1, 2, 3], moves=lambda each: each.sample_id != 1)
    room = target.empty_cache(moved)
    room.copy_(packed)
    target.add_cached(moved, room)
    target.add([each for each in given if each not in moved])
    while target.unfinished:
        done += target.step()
    times = source.times
    times.absorb(target.times.to_rows())
    return {
        "plain": [each.tokens for each in plain],
        "moved": [each.tokens for each in sorted(done, key=lambda each: each.sample_id)],
        "with_cache": [each.sample_id for each in moved],
        "bytes": packed.nbytes,
        "bytes_per_token": source.bytes_per_token,
        "tokens": sum(len(each.tokens) - 1 for each in moved),
        "times": {"/".join(map(str, key)): asdict(sums) for key, sums in times.sums.items()},
    }
