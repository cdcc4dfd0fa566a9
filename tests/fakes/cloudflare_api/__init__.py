"""Cloudflare's REST API as far as a deployment uses it, strict where the real one is, over real sockets.

What it does not show of the real one: eventual consistency between a write and the next read, and the runtime that
refuses a script whose code can't start.
"""

from tests.fakes.cloudflare_api.server import CloudflareApi
from tests.fakes.cloudflare_api.things import ACCOUNT_ID, TOKEN, ZONE_ID, ZONE_NAME, Script

__all__ = ["ACCOUNT_ID", "TOKEN", "ZONE_ID", "ZONE_NAME", "CloudflareApi", "Script"]
