"""Addresses as they may be shown."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?<=//)[^/@\s]*@")


def without_userinfo(address: str) -> str:
    """Without the name and password that it may hold."""
    return _USERINFO.sub("", address)
