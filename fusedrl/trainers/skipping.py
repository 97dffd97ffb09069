"""Updates that are skipped because the gradient is not finite: a few may be, a row of them ends the run.

A skipped update changes nothing of the model, nor of its optimizer and schedule (fusedrl.models.training). One is an
accident of a batch; a model whose parameters or inputs have gone bad skips all that follow, and would do so for days.
"""

from collections.abc import Mapping

from fusedrl.models.training import TrainableModel
from fusedrl.parallel.agreed import AgreedError
from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.team import leads

KEY = "trainer.max_skipped_updates"


def skipped_in_a_row(held: Mapping[str, TrainableModel]) -> dict[str, int]:
    """The last updates of each model that were skipped, the same on every rank. A collective of all ranks, each of
    which gives the models that it holds a part of."""
    mine = {name: model.skipped_in_a_row for name, model in held.items()}
    return {name: count for told in all_gather_object(mine) for name, count in told.items()}


def check_skipped(skipped: Mapping[str, int], *, limit: int | None, step: int, stays: str) -> None:
    """Raises AgreedError where a model has come to the limit. stays: what is saved."""
    for name, count in skipped.items():
        if limit is not None and count >= limit:
            raise AgreedError(
                f"{name}: the gradients of its last {count} updates, up to step {step}, were not finite; they were "
                f"skipped, and no parameter changed. {KEY}={limit} allows no more. {stays}. A smaller learning rate, "
                "or a look at rewards and log-probabilities of that step, is what to begin with",
                tells=leads(),
            )
