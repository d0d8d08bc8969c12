"""Strategies: what to evaluate next. One small file per method."""
