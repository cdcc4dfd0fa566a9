"""What has happened to a model since the node began, whichever of its revisions it happened to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """`loads` and `unloads` count the room that it took and gave back, `evictions` those of the latter that others needed.

    `failures` are loads that failed and processes that died, `restarts` the processes that came after one of these.
    """

    loads: int = 0
    unloads: int = 0
    evictions: int = 0
    failures: int = 0
    restarts: int = 0
    promotions: int = 0
