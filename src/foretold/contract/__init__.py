"""The promise that node and edge keep alike, as pure functions.  Rules: contract/README.md.

No clock, no chance, no I/O: what varies comes in as an argument.  Each module has a twin of the same stem in
worker/src/contract/, and both run every vector of contract/vectors/.
"""
