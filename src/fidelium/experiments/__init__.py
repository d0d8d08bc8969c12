"""The experiments behind the numbers in the README and docs/experiments.md, each repeatable by a command."""
