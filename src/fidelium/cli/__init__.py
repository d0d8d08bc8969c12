"""The command line, `fidelium`."""

from __future__ import annotations

from fidelium.cli.app import main

__all__ = ["main"]
