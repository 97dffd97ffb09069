from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from fusedrl.config.errors import ConfigError
from fusedrl.pipeline.failure import PipelineError
from fusedrl.trainers import world
from fusedrl.trainers.entry import in_world, set_up


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "joined", lambda *, timeout_s: nullcontext())
    monkeypatch.delenv("RANK", raising=False)


def raising(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PipelineError("told already"), 1, ""),
        (ConfigError(["a.b=1: must be 2"]), 2, "fusedrl.ppo: 1 problem in the configuration"),
    ],
)
def test_failed_passes_and_configurations_end_with_a_code_and_no_traceback(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        in_world("ppo", lambda: raising(error), timeout_s=1.0)
    assert ended.value.code == code
    printed = capsys.readouterr().err
    assert printed.startswith(said)
    assert "Traceback" not in printed
    assert bool(printed) == bool(said)


def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        in_world("ppo", lambda: raising(ZeroDivisionError()), timeout_s=1.0)


def test_errors_of_setting_up_are_the_configurations_but_not_those_of_the_run() -> None:
    @contextmanager
    def run(*, broken: bool) -> Iterator[int]:
        if broken:
            raise ValueError("two\nlines")
        yield 5

    with pytest.raises(ConfigError, match=r"^two lines$"), set_up(run(broken=True)):
        pass
    with pytest.raises(ValueError, match=r"^later$") as later, set_up(run(broken=False)) as made:
        raise ValueError("later") if made == 5 else AssertionError
    assert not isinstance(later.value, ConfigError)
