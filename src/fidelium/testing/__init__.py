"""Conformance suites that anyone can run on a part of their own: `surrogates` and `storages`."""
