"""The loop: messages first, then generation, then units; with nothing left it says so, once, and what it has seen."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from fusedrl.bench.emulated_rollout import EmulatedEngine, EmulatedInference
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream.client import StreamError
from fusedrl.stream.costs import DecodeCurve, StreamCosts
from fusedrl.stream.instance import Instance, Place
from fusedrl.stream.messages import (
    Abort,
    Extract,
    Generate,
    Infer,
    Message,
    SampleState,
    Stop,
    UnitRef,
    state_of,
)

COSTS = StreamCosts(decode=DecodeCurve(((1, 1e-4), (2, 1e-4))), prefill_ms=0.0, infer_ms={"ref": 0.0}, max_rows=4)
LENGTHS = {0: 2, 1: 5, 2: 5}
REQUESTS = {i: Request(sample_id=i, prompt=(i, 1), params=SamplingParams(max_tokens=9)) for i in LENGTHS}
FRESH = Generate(tuple(SampleState(i, b"", b"") for i in LENGTHS))


class Script:
    """A client that hears the messages in turn: those of `poll` one a call, None meaning nothing there yet."""

    def __init__(self, *messages: Message | None) -> None:
        self.coming = deque(messages)
        self.said: list[Message] = []
        self.progress, self.activity = 0, ""

    def send(self, message: Message) -> None:
        self.said.append(message)

    def poll(self) -> Message | None:
        return self.coming.popleft() if self.coming else None

    def wait(self) -> Message:
        while self.coming:
            if (message := self.coming.popleft()) is not None:
                return message
        raise StreamError("the script is over")


class Watching(EmulatedInference):
    def __init__(self) -> None:
        super().__init__({"ref": 0.0})
        self.calls: list[list[int]] = []

    def infer(self, task: str, samples: Sequence[Completion]) -> Any:
        self.calls.append([each.sample_id for each in samples])
        return super().infer(task, samples)


def run(script: Script, *, engine: Any = None, models: EmulatedInference | None = None) -> Instance:
    instance = Instance(
        Place(instance=0, member=0, ranks=[(0,), (1,)]),
        engine=engine or EmulatedEngine(LENGTHS, costs=COSTS),
        inference=models or Watching(),
        requests=REQUESTS,
        groups=[(0,), (1, 2)],
        client=script,  # type: ignore[arg-type]
    )
    instance.run()
    return instance


def kinds(script: Script) -> list[str]:
    return [type(each).__name__ for each in script.said]


def whole(sample_id: int) -> SampleState:
    request = REQUESTS[sample_id]
    return state_of(
        Completion(sample_id=sample_id, prompt=request.prompt, tokens=(7,), logprobs=(-1.0,), finish_reason="stop")
    )


def test_finished_samples_are_told_as_they_finish_and_the_end_is_told_once() -> None:
    script = Script(FRESH, *[None] * 9, Stop())
    run(script)
    assert kinds(script) == ["Hello", "Finished", "Finished", "Want"]
    first, second = (each.samples for each in script.said[1:3])  # type: ignore[union-attr]
    assert [(state.sample_id, state.length) for state in (*first, *second)] == [(0, 2), (1, 5), (2, 5)]
    assert script.said[3].seen == 1  # type: ignore[union-attr]


def test_generation_goes_before_units_that_are_there_already() -> None:
    models = Watching()
    chunk = Infer((UnitRef("ref", 0), UnitRef("ref", 1)), (whole(0), whole(1), whole(2)))
    script = Script(FRESH, chunk, *[None] * 12, Stop())
    run(script, models=models)
    assert kinds(script) == ["Hello", "Finished", "Finished", "UnitsDone", "Want"]
    assert models.calls == [[0], [1, 2]]


def test_samples_that_arrive_in_the_middle_of_a_chunk_go_first() -> None:
    models = Watching()
    chunk = Infer((UnitRef("ref", 0), UnitRef("ref", 1)), (whole(0), whole(1), whole(2)))
    script = Script(chunk, FRESH, *[None] * 12, Stop())
    run(script, models=models)
    assert kinds(script) == ["Hello", "Finished", "Finished", "UnitsDone", "Want"]


def test_what_finished_before_it_could_leave_is_not_extracted() -> None:
    script = Script(FRESH, None, Extract(1, (0, 2)), *[None] * 9, Stop())
    run(script)
    extracted = next(each for each in script.said if type(each).__name__ == "Extracted")
    assert [(s.sample_id, s.length, s.reason) for s in extracted.samples] == [(2, 2, "")]  # type: ignore[union-attr]
    assert kinds(script) == ["Hello", "Finished", "Extracted", "Finished", "Want"]
    assert script.said[-1].seen == 2  # type: ignore[union-attr]


def test_a_migrated_sample_goes_on_where_it_was() -> None:
    engine = EmulatedEngine(LENGTHS, costs=COSTS)
    engine.add([REQUESTS[1]])
    engine.step()
    (request,) = engine.extract([1])
    script = Script(Generate((state_of(request),), 1), *[None] * 9, Stop())
    run(script)
    (finished,) = (each for each in script.said if type(each).__name__ == "Finished")
    assert finished.samples[0].length == 5  # type: ignore[union-attr]


def test_an_abort_and_a_lost_coordinator_end_the_loop_with_their_reason() -> None:
    with pytest.raises(StreamError, match="instance 3 failed: no memory"):
        run(Script(FRESH, None, Abort("instance 3 failed: no memory")))
    with pytest.raises(StreamError, match="the script is over"):
        run(Script())


def test_an_engine_that_throws_is_told_to_the_coordinator_and_raised() -> None:
    class Full(EmulatedEngine):
        def step(self) -> list[Completion]:
            raise MemoryError("no room")

    script = Script(FRESH, None)
    with pytest.raises(MemoryError):
        run(script, engine=Full(LENGTHS, costs=COSTS))
    assert script.said[-1].reason == "MemoryError: no room"  # type: ignore[union-attr]


def test_time_is_kept_by_what_it_went_into() -> None:
    instance = run(Script(FRESH, *[None] * 9, Stop()))
    stats = instance.stats
    assert [name for name, _, _ in instance.spans] == ["take in", "generate", "wait"]  # many steps, one interval
    assert all(start <= end for _, start, end in instance.spans)
    assert stats.generating > 0
    assert stats.moving > 0
    assert stats.inferring == 0
