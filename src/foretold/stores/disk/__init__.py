"""Bytes on this machine's disk: an LMDB index with what is small, and a file for each body that is large."""

from foretold.stores.disk.store import DiskStore

__all__ = ["DiskStore"]
