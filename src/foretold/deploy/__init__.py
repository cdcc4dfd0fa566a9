"""Putting the edge Worker on Cloudflare: one pure description, and those who consume it.

    settings.py    edge.toml, typed
    describing.py  edge.toml, the Worker's files and the secrets → a description
    plan.py        the description: namespace, bucket, script, bindings, route; nothing here talks to anybody
    state.py       what an account has of it
    changes.py     description + state → the steps still to take, and what is refused; pure
    assets.py      static files, by digest
    rules.py       Cloudflare's rules for names, ids and patterns
    cost.py        description + prices.toml → dollars for a million requests
    applying.py    plan, apply, destroy: reads, compares, takes the steps, reads again
    account.py     Cloudflare's API through its official SDK: reads the state
    taking.py      … and takes the steps
    proving.py     whether the deployed edge works, asked where its callers ask
    tailing.py     what it does and says while somebody listens
    wrangler.py    description → wrangler.jsonc
    pulumi.py      description → Pulumi resources

Nothing here imports the node.
"""
