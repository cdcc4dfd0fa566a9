"""Models kept in an object store or a folder: sent there, brought here, verified, and kept within a limit.

A library is untrusted: whoever may write to it must not be able to choose what a node runs.  So a manifest counts only
if its digest is pinned or its signature verifies (trust.py), and a file only if its digest is the manifest's.
"""
