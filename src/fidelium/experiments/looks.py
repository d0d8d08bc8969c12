"""How a method is drawn, in every figure the same: our default thick, the rest of ours solid, peers dashed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from fidelium.experiments import peers
from fidelium.strategies import registry

# Okabe and Ito's colours for ours, Paul Tol's muted ones for peers: both made for colour-blind readers
_COLOURS = {
    "dnn-mfbo": "#D55E00",
    "dnn-mfbo-paper": "#E69F00",
    "mf-mes": "#0072B2",
    "mf-pes": "#009E73",
    "mf-gp-ucb": "#56B4E9",
    "mf-sko": "#CC79A7",
    "mtnn-bo": "#8C6D31",
    "sf-mes": "#5E5E5E",
    "sf-ei": "#1B1B1B",
    "nargp-mes": "#6A3D9A",
    "random": "#A9A9A9",
    "botorch-mfmes": "#332288",
    "botorch-stmf-mes": "#88CCEE",
    "botorch-mfkg": "#117733",
    "botorch-logei": "#999933",
    "optuna-tpe": "#AA4499",
    "smac": "#882255",
}
_SPARE = ("#44AA99", "#DDCC77", "#CC6677", "#4477AA", "#66CCEE")


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Args:
        colour: of its lines and bars.
        dash: of its lines.
        width: of its lines.
    """

    colour: str
    dash: str | None
    width: float

    @property
    def line(self) -> dict[str, Any]:
        """Plotly's settings of its line."""
        return {"color": self.colour, "width": self.width, "dash": self.dash}

    def band(self, alpha: float) -> str:
        """The colour, almost transparent."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha})"


def look_of(strategy: str) -> Look:
    """The look of a method; one that is not in our table gets a colour by its name."""
    colour = _COLOURS.get(strategy) or _SPARE[zlib.crc32(strategy.encode()) % len(_SPARE)]
    return Look(colour, "dash" if strategy in peers.names() else None, 3.5 if strategy == registry.DEFAULT else 1.8)
