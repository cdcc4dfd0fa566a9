"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    def __init__(self, now_ms: int = 1_764_500_000_000):
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def forward(self, *, s: float) -> None:
        self.now_ms += int(s * 1000)
