"""The bounded log keeps the beginning and the end of a program's output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fidelium.execution.output_log import BoundedLog, last_lines


@given(st.lists(st.binary(max_size=40)), st.integers(0, 30))
def test_a_log_keeps_the_first_and_the_last_bytes(tmp_path_factory, chunks, limit):
    path = tmp_path_factory.mktemp("log") / "stdout.txt"
    with BoundedLog(path, limit) as log:
        for chunk in chunks:
            log.write(chunk)
    whole = b"".join(chunks)
    left_out = max(len(whole) - 2 * limit, 0)
    assert log.left_out == left_out
    middle = f"\n[fidelium left out {left_out} bytes]\n".encode()
    expected = whole[:limit] + middle + whole[len(whole) - limit :] if left_out else whole
    assert path.read_bytes() == expected


def test_last_lines_are_joined_and_bounded(tmp_path):
    (tmp_path / "log").write_text("\n".join(f"line {i} " for i in range(100)) + "\n\n")
    assert last_lines(tmp_path / "log", lines=3) == "line 98 | line 99"
    assert last_lines(tmp_path / "log", lines=3, limit=7) == "...line 99"
    assert last_lines(tmp_path / "gone") == ""
