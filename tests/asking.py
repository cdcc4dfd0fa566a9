"""What tests ask."""

from __future__ import annotations

from typing import Any


def chat_body(text: str, **members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **members}
