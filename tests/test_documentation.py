"""The documentation keeps its word: links lead somewhere, and the files, names and targets it mentions exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "fidelium"
CODE = (ROOT / "src", ROOT / "tests", ROOT / "examples")
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", ".github/**/*.md") for page in ROOT.glob(pattern)
)
HISTORY = {"CHANGELOG.md", "experiments-log.md"}
"""They speak of what was there once: only their links are checked."""

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
EVERY_CURRENT_PAGE = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in HISTORY], ids=lambda page: page.relative_to(ROOT).as_posix()
)


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Where inline links and pictures point."""
    return re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`]*`", "", prose(page)))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names(page: Path) -> set[str]:
    """What stands between backticks in the prose."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


@EVERY_PAGE
def test_links_lead_to_files_and_headings(page):
    broken = []
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@EVERY_CURRENT_PAGE
def test_the_python_files_that_are_mentioned_exist(page):
    mentioned = [name for name in names(page) if re.fullmatch(r"[\w./]+/\w+\.py", name)]
    everywhere = [f"/{path.relative_to(ROOT).as_posix()}" for at in CODE for path in at.glob("**/*.py")]
    patterns = {name: re.escape(f"/{name}").replace("_N", r"_\d+") for name in mentioned}  # schema_N.py: any number
    missing = [name for name, pattern in patterns.items() if not any(re.search(f"{pattern}$", at) for at in everywhere)]
    assert missing == []


@EVERY_CURRENT_PAGE
def test_the_dotted_names_that_are_mentioned_exist(page):
    mentioned = [found[0] for name in names(page) if (found := re.match(r"fidelium(\.[A-Za-z_]\w*)+", name))]
    assert [name for name in mentioned if not exists(name)] == []


@EVERY_CURRENT_PAGE
def test_what_the_examples_import_exists(page):
    missing = []
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fidelium"):
                missing += [f"{node.module}.{alias.name}" for alias in node.names]
    assert [name for name in missing if not exists(name)] == []


@EVERY_PAGE
def test_the_make_targets_that_are_mentioned_exist(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    mentioned = re.findall(r"^make (\w+)", text, flags=re.MULTILINE) + re.findall(r"`make (\w+)", text)
    assert set(mentioned) <= targets


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module defines or imports."""
    _, *rest = name.split(".")
    path = SOURCES
    while rest and ((path / rest[0]).is_dir() or (path / f"{rest[0]}.py").exists()):
        path = path / rest.pop(0)
    module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return set(rest) <= defined(module)


@cache
def defined(module: Path) -> set[str]:
    """Every name that a module defines or imports, those of its classes included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.ImportFrom():
                found.update(alias.asname or alias.name for alias in node.names)
    return found


def layers() -> list[str]:
    """Of the contract that `make check` enforces, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(contract["layers"] for contract in contracts if contract["type"] == "layers")


def block_under(heading: str) -> list[str]:
    """The lines of the first block of code under a heading of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## {heading}\n")
    found = re.search(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].splitlines()


def test_contributing_has_the_layers_that_are_enforced():
    assert [re.split(r"\s{2,}", line)[0] for line in block_under("Layers")] == layers()


def test_the_tree_in_contributing_has_every_room_and_no_other():
    rooms = {line.split()[0] for line in block_under("The tree") if line.startswith("  ") and line.strip()}
    packages = {f"{path.name}/" for path in SOURCES.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in SOURCES.glob("*.py")}
    assert {room for room in rooms if "/" not in room.rstrip("/")} == packages | modules
    assert [room for room in rooms if not (SOURCES / room).exists()] == []
