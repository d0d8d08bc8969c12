"""`storage info`, `storage upgrade` and `storage delete`."""

from __future__ import annotations

import io
import json

from fidelium.storage import open_storage


def test_info_upgrade_and_delete(call, study_file, tmp_path) -> None:
    path, url = study_file(), f"sqlite:///{tmp_path}/parabola.db"
    call("ask", path)
    info = json.loads(call("storage", "info", url, "--json").out)
    assert info["studies"] == [{"name": "parabola", "trials": 1}]
    assert f"already has schema {info['schema']}" in call("storage", "upgrade", path).out
    assert "parabola" in call("storage", "info", path).out
    assert call("storage", "delete", url, "--name", "nope", "--yes").code == 2
    assert call("storage", "delete", path, "--yes").out.startswith("deleted study 'parabola' with 1 trial in ")
    assert open_storage(url).names() == ()
    assert "there is no file" in call("storage", "upgrade", f"sqlite:///{tmp_path}/none.db").err
    assert call("storage", "info", "mysql://me:secret@host/x").err.count("secret") == 0


def test_delete_asks_for_confirmation(call, study_file, monkeypatch, tmp_path) -> None:
    path = study_file()
    call("ask", path)
    for given in (b"n\n", b"", b"\xed\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        answer = call("storage", "delete", path)
        assert answer.code == 130
        assert "permanently delete study 'parabola' with 1 trial in " in answer.err
    assert open_storage(f"sqlite:///{tmp_path}/parabola.db").names() == ("parabola",)
