"""Whatever makes a prediction.  Every origin passes tests/conformance/test_origins.py."""
