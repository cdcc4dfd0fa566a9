"""Foretold answers AI model calls at the edge: asked once, remembered."""

__version__ = "0.1.0"
