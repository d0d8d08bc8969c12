"""Figures of a study or a problem, as Plotly figures and as files.

Writing a file needs neither a network nor a browser: HTML with Plotly's script inside, PNG drawn by matplotlib.
"""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from fidelium.plots.convergence import convergence, overview
from fidelium.plots.picture import picture
from fidelium.plots.slices import slices

__all__ = ["convergence", "overview", "picture", "slices", "write"]


def write(figure: go.Figure, path_html: str | Path | None = None, path_png: str | Path | None = None) -> None:
    """Write a figure to an HTML file that works offline, a PNG file, or both; folders are created as needed."""
    for path in (path_html, path_png):
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path_html is not None:
        figure.write_html(Path(path_html), include_plotlyjs=True, full_html=True)
    if path_png is not None:
        from fidelium.plots.png import write_png  # matplotlib is slow to import

        write_png(figure, Path(path_png))
