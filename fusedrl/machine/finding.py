"""What a look at the machine found, and what to change about it: data, with no opinion on how it is shown."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "bad"]  # bad: a run would fail here; warn: it would be slow, or fail under some settings


@dataclass(frozen=True)
class Finding:
    """topic: a few words, the same on all machines; change: what to do, empty where all is well."""

    topic: str
    text: str
    level: Level = "ok"
    change: str = ""


def warn(topic: str, text: str, *, change: str) -> Finding:
    return Finding(topic, text, "warn", change)


def bad(topic: str, text: str, *, change: str) -> Finding:
    return Finding(topic, text, "bad", change)


def is_fit(findings: list[Finding]) -> bool:
    """Whether a run may start."""
    return all(finding.level != "bad" for finding in findings)
