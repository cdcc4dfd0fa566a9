"""Putting the edge Worker on Cloudflare: one pure description, and those who consume it.

    settings.py    edge.toml, typed
    describing.py  edge.toml, the Worker's files and the secrets → a description
    plan.py        the description: namespace, bucket, script, bindings, route; nothing here talks to anybody
    state.py       what an account has of it
    changes.py     description + state → the steps still to take, and what is refused; pure
    account.py     Cloudflare's API through its official SDK: reads the state, takes the steps
    wrangler.py    description → wrangler.jsonc
    pulumi.py      description → Pulumi resources

Nothing here imports the node.
"""
