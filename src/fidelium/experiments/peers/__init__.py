"""Methods of other libraries as strategies, to compare ours with from the same starts; all need the extra `peers`.

Each library has a file; `adapters` holds what they share, without importing any of them. A peer's module, and with it
its library, is imported when the peer is resolved (`fidelium.experiments.methods`). Peers are for experiments: they
ignore running and failed queries. docs/peers.md tells how each is set up, and how to add one.
"""
