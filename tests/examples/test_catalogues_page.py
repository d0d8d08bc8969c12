"""The example of docs/catalogues.md runs, and finds what it says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "catalogues.md"


def test_the_example_runs_and_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(block, str(PAGE), "exec"), {})
    (said,) = re.findall(r"# (\{'profile'.*\})", block)
    assert capsys.readouterr().out.strip() == said
