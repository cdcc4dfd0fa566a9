/** The least that a cache in an isolate can do: a Map by the digest of the body, without bounds or times. */

const known = new Map();

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (request.method !== "POST") return new Response("ok");
    const body = await request.arrayBuffer();
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
    let key = pathname;
    for (const byte of digest) key += byte.toString(16).padStart(2, "0");
    const found = known.get(key);
    if (found) return new Response(found.told, { headers: { "content-type": found.kind, "x-cache": "hit" } });
    const answer = await fetch(env.UPSTREAM + pathname, { method: "POST", body, headers: { "content-type": "application/json" } });
    const kind = answer.headers.get("content-type") ?? "application/json";
    const told = await answer.arrayBuffer();
    if (answer.ok) known.set(key, { told, kind });
    return new Response(told, { status: answer.status, headers: { "content-type": kind, "x-cache": "miss" } });
  },
};
