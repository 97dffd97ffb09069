"""Help covers each key once, and offers only files that a command can take."""

import pytest

from fusedrl.config.help import choices, defaults, help_text
from fusedrl.config.keys import walk
from fusedrl.config.load import load
from fusedrl.config.schema import SCHEMAS


@pytest.mark.parametrize("command", SCHEMAS)
def test_every_key_has_a_default_and_a_line(command: str) -> None:
    names = [key.name for key in walk(SCHEMAS[command])]
    lines = help_text(command).splitlines()
    assert set(defaults(command)) == set(names)
    assert [sum(line.startswith(f"  {name}=") for line in lines) for name in names] == [1] * len(names)


@pytest.mark.parametrize("command", SCHEMAS)
def test_every_choice_that_is_offered_can_be_taken(command: str) -> None:
    for group, names in choices(command).items():
        for name in names:
            load(command, ["experiment=arithmetic", f"{group}={name}"][-1 if group == "experiment" else 0 :])


def test_problems_of_the_scheduler_are_not_offered() -> None:
    assert "schedule" not in choices("ppo")
