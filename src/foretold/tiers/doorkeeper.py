"""Which keys were asked for before, in fixed memory: so that a route can keep only what is asked for twice.

Two tables of bits, the younger and the older.  A key sets four bits in the younger one; once that has met as many keys
as it is good for, or is an hour old, it becomes the older one and the older is forgotten.  About one key in 400 is
taken for met though it was not, and is kept a little early; none that was met lately is forgotten.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

KEYS = 65_536
TURN_MS = 3_600_000

_BITS = 16 * KEYS
_PLACES = 4


class Doorkeeper:
    def __init__(self, *, now_ms: Callable[[], int]):
        self._now_ms = now_ms
        # Nobody can aim at the bits of others.
        self._salt = secrets.token_bytes(32)
        self._young, self._old = bytearray(_BITS // 8), bytearray(_BITS // 8)
        self._met = 0
        self._began_ms = now_ms()

    def met(self, key: str) -> bool:
        """Whether a key was asked for among the last 65,536 keys of the last hour, or somewhat longer; remembers it."""
        self._turn()
        digest = hashlib.blake2b(key.encode(), key=self._salt, digest_size=4 * _PLACES).digest()
        places = [int.from_bytes(digest[at : at + 4], "big") % _BITS for at in range(0, 4 * _PLACES, 4)]
        in_young = all(self._young[place >> 3] >> (place & 7) & 1 for place in places)
        in_old = all(self._old[place >> 3] >> (place & 7) & 1 for place in places)
        if not in_young:
            for place in places:
                self._young[place >> 3] |= 1 << (place & 7)
            self._met += 1
        return in_young or in_old

    def _turn(self) -> None:
        now_ms = self._now_ms()
        passed_ms = now_ms - self._began_ms
        if self._met < KEYS and 0 <= passed_ms < TURN_MS:
            return
        if not 0 <= passed_ms < 2 * TURN_MS:
            self._young = bytearray(_BITS // 8)
        self._old, self._young = self._young, bytearray(_BITS // 8)
        self._met, self._began_ms = 0, now_ms
