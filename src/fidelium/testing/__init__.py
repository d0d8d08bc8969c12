"""Conformance tests for new surrogates (`surrogates`) and storages (`storages`)."""
