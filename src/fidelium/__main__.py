"""`python -m fidelium` is `fidelium`."""

from __future__ import annotations

from fidelium.cli import main

if __name__ == "__main__":
    main()
