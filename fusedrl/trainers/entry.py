"""From a checked configuration into the world of ranks, for the entry points.

    in_world("ppo", lambda: run(config), timeout_s=600)
    with set_up(ppo_run(config)) as (ppo, steps): ...

What goes wrong while a run is set up is the user's to mend: it ends as a bad configuration does, one line and code 2.
A run that is asked to stop (stopping.py) ends with RESUMABLE, on which launch/slurm.sbatch queues the job again.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from fusedrl.config.cli import stop
from fusedrl.config.errors import ConfigError
from fusedrl.telemetry.timers import PHASE

FAILED = 1  # exit codes
RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: the same command goes on
INTERRUPTED = 130  # as a shell has it: 128 + SIGINT
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
Run = TypeVar("Run")


def is_first_rank() -> bool:
    """Whether this rank speaks to the user; known before any process group exists."""
    return int(os.environ.get("RANK", "0")) == 0


def say(text: str) -> None:
    """A line for the user, from one rank."""
    if is_first_rank():
        print(text, flush=True)


def overlap_tensor_parallel(*, largest_tp: int) -> None:
    """Call before CUDA starts. With tensor parallelism a layer's backward starts its all-reduce and then the matmul
    that hides it; only with one connection does the GPU take them in that sequence (NVIDIA/Megatron-LM#533).

    A value from outside stays. Without tensor parallelism nothing is set: more connections let messages between stages
    start while kernels wait.
    """
    if largest_tp > 1:
        os.environ.setdefault(CONNECTIONS, "1")


@contextmanager
def set_up(run: AbstractContextManager[Run]) -> Iterator[Run]:
    """As `entered`; from then on SIGUSR1 and SIGTERM end the run after its step, saved (stopping.py)."""
    from fusedrl.trainers.stopping import heeding

    with entered(run) as made, heeding():
        yield made


@contextmanager
def entered(run: AbstractContextManager[Run]) -> Iterator[Run]:
    """Enters `run`; its ValueErrors and OSErrors on the way in become ConfigErrors, those of the run itself do not."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(run)
        except (ValueError, OSError) as error:
            raise ConfigError([" ".join(str(error).split())]) from error
        yield made


def lost_contact(error: RuntimeError) -> str | None:
    """What to say where a collective failed for the sake of another rank: it is gone, or did not come in time."""
    from torch.distributed import DistError

    first = str(error).splitlines()[0] if str(error) else ""
    if not isinstance(error, DistError) and "/gloo/" not in first:
        return None
    if "timed out" in first.lower():
        return f"waited for another rank longer than trainer.timeout_s allows{_during(error)} ({_in_short(first)})"
    return f"lost contact with another rank{_during(error)}: it ended, failed or was killed ({_in_short(first)})"


def _in_short(text: str) -> str:
    """Without the C++ file that gloo puts in front, and its advice behind."""
    return re.sub(r"\[\S*/gloo/[^\]]*\] ", "", text).split(". This is typically")[0].removesuffix(".")


def _during(error: BaseException) -> str:
    """The phase that the step was in (Timers leave a note of it)."""
    phases = [note.removeprefix(PHASE) for note in getattr(error, "__notes__", []) if note.startswith(PHASE)]
    return f" during {phases[0]}" if phases else ""


def in_world(command: str, run: Callable[[], None], *, timeout_s: float) -> None:
    """Call `run` on the joined ranks. Ends this rank with code 2 and one line where it cannot be set up.

    A pass that failed has told why, on the rank where it failed first: the ranks end with code 1 and no more words. So
    has a stream of samples.
    What all ranks know alike (a state that could not be saved, an AgreedError) one of them tells, then they end with
    code 1; so is a run that was asked to stop and is saved, with code 75. A rank that loses another one outside a pass
    says so in one line. The signals of a launcher that ends the others do not cut a rank off while it tells.
    """
    from fusedrl.checkpoint.saver import SaveError
    from fusedrl.parallel.agreed import AgreedError
    from fusedrl.pipeline.failure import TELL_S, PipelineError
    from fusedrl.stream.client import StreamError
    from fusedrl.trainers.stopping import Stopped, ending, let_tell
    from fusedrl.trainers.world import joined

    try:
        with ending(), joined(timeout_s=timeout_s):
            run()
    except ConfigError as error:
        stop(command, error.problems)
    except (SaveError, Stopped, AgreedError) as error:
        if error.tells if isinstance(error, AgreedError) else is_first_rank():
            print(f"fusedrl.{command}: {error}", file=sys.stderr, flush=True)
        else:
            let_tell(TELL_S)
        sys.exit(RESUMABLE if isinstance(error, Stopped) else FAILED)
    except (PipelineError, StreamError):
        sys.exit(FAILED)
    except RuntimeError as error:
        if (reason := lost_contact(error)) is None:
            raise
        print(f"fusedrl.{command}: rank {os.environ.get('RANK', '0')} {reason}", file=sys.stderr, flush=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:  # of a terminal, which interrupts the launcher and all ranks
        if is_first_rank():
            print(f"fusedrl.{command}: interrupted", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
