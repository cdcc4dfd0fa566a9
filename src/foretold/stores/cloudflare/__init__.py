"""Workers KV of an account, over Cloudflare's REST API: what nodes and edges share."""
