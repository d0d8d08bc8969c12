"""Constraints on parameters, known before a run: their texts, and drawing and repairing designs that meet them."""
