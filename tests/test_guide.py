"""The guide's commands have valid keys and sizes; the messages that troubleshooting explains are still printed."""

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fusedrl.config.load import load
from fusedrl.config.validate import check_sft
from fusedrl.ppo import problems as ppo_problems
from fusedrl.trainers.preflight import sft_model

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ENDINGS = (".py", ".sh", ".sbatch", ".md", ".yaml")


def commands() -> list[str]:
    """Each command of the guide's bash blocks, on one line."""
    blocks = re.findall(r"```bash\n(.*?)```", (DOCS / "guide.md").read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def entry(command: str) -> tuple[str, int, list[str]] | None:
    """(fusedrl's command, ranks, its arguments); None where it starts none of the trainer's commands."""
    words = shlex.split(command)
    names = [word for word in words if re.fullmatch(r"fusedrl\.\w+", word)]
    if not names:
        return None
    place = words.index(names[0])
    ranks = [int(words[n + 1]) for n, word in enumerate(words[:place]) if word == "--nproc-per-node"]
    ranks += [int(word.split("=")[1]) for word in words[:place] if word.startswith("NPROC_PER_NODE=")]
    if "--ntasks-per-node" in words:
        ranks.append(int(words[words.index("--nodes") + 1]) * int(words[words.index("--ntasks-per-node") + 1]))
    return names[0].removeprefix("fusedrl."), ranks[0] if ranks else 1, words[place + 1 :]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the guide's reader has made."""
    monkeypatch.chdir(tmp_path)
    row = {"prompt": "1+1=", "data_source": "sums", "reward_model": {"ground_truth": "2"}, "extra_info": {}}
    for name in ("train.jsonl", "val.jsonl"):
        Path(name).write_text((json.dumps(row) + "\n") * 64)
    block = re.search(r"```python\n(.*?)```", (DOCS / "guide.md").read_text(), flags=re.DOTALL)
    assert block is not None
    Path("my_reward.py").write_text(block[1])


def test_the_guide_has_commands_of_each_kind() -> None:
    assert {found[0] for command in commands() if (found := entry(command))} == {
        "ppo",
        "sft",
        "evaluate",
        "doctor",
        "report",
    }


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_guide_names_scripts_keys_and_sizes_that_fit(command: str, rows: None) -> None:
    scripts = re.findall(r"launch/[\w.]+", command)
    assert [script for script in scripts if not (ROOT / script).exists()] == []
    found = entry(command)
    if found is None or found[0] in ("doctor", "report"):
        assert scripts or found, command
        return
    name, ranks, arguments = found
    if name == "ppo":  # all that --check looks at, with the model that the quickstart's warm start would make
        config = load("ppo", [*arguments, "actor_rollout_ref.model.warm_start=arithmetic"])
        assert ppo_problems(config, ranks) == []
    elif name == "sft":
        model = sft_model(load("sft", ["experiment=arithmetic"]))
        assert check_sft(load("sft", arguments), world=ranks, model=model) == []
    else:
        load(name, arguments)


@cache
def sources() -> str:
    """All that is printed anywhere: sources with neighbouring pieces of text put together."""
    files = [*(ROOT / "fusedrl").rglob("*.py"), *(ROOT / "schedules").rglob("*.py"), *(ROOT / "launch").iterdir()]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    return re.sub(r'"\s*\n\s*f?"', "", text)


def messages() -> Iterator[str]:
    for line in (DOCS / "troubleshooting.md").read_text().splitlines():
        if match := re.match(r"\| `([^`]+)` \|", line):
            yield match[1]


@pytest.mark.parametrize("message", messages())
def test_a_message_of_troubleshooting_is_one_that_is_printed(message: str) -> None:
    pieces = [piece.strip(" :;?.,=") for piece in message.split("...")]
    assert [piece for piece in pieces if piece and piece not in sources()] == []
    assert max(map(len, pieces)) >= 10, "too short to be recognised"


def test_paths_on_the_pages_exist() -> None:
    for page in ("guide.md", "extending.md", "troubleshooting.md"):
        named = re.findall(r"`((?:fusedrl|schedules|tests|launch|configs)/[\w/.]+)`", (DOCS / page).read_text())
        assert [path for path in named if path.endswith(ENDINGS) and not (ROOT / path).exists()] == []
