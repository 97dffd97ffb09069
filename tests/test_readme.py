"""README's tree and links are true."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN_FROM_TREE = {"README.md", ".gitignore", ".ci"}


def tree() -> list[tuple[int, str]]:
    """(indent, name) of each entry of README's tree."""
    block = (ROOT / "README.md").read_text().split("## The tree\n\n```\n")[1].split("\n```")[0]
    entries = []
    for line in block.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.split(r"\s{2,}", line.strip())[0]
        entries += [(indent, name) for name in names.split(", ")]
    return entries


def listed() -> set[str]:
    parent, found = "", set()
    for indent, name in tree():
        if indent == 0:
            parent = name
            found.add(name.rstrip("/"))
        else:
            found.add(parent + name.rstrip("/"))
    return found


def test_every_entry_of_the_tree_exists() -> None:
    assert [name for name in sorted(listed()) if not (ROOT / name).exists()] == []


def test_every_room_stands_in_the_tree() -> None:
    top = {p.name for p in ROOT.iterdir() if p.is_file() or list(p.rglob("*.py")) or list(p.rglob("*.md"))}
    rooms = {f"fusedrl/{p.name}" for p in (ROOT / "fusedrl").iterdir() if list(p.glob("*.py"))}
    tracked = {name for name in top if not name.startswith(".") and name not in ("runs", "build", "dist")}
    expected = {name for name in tracked | rooms if not name.endswith(".egg-info")} - HIDDEN_FROM_TREE
    assert sorted(expected - listed()) == []


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
