"""Where bytes are kept.  Every store passes tests/conformance/test_stores.py."""
