/**
 * Workers Cache as strict as RFC 9111 and its documentation let it be, before an inner `fetch`.
 *
 * Like production, where the local platform has none: only GET and HEAD; the key is path and query, never the host; a
 * request with Authorization is not answered from it, nor kept, unless the answer says `public`, `s-maxage` or
 * `must-revalidate`; `no-store`, `private`, Set-Cookie, 206 and `Vary: *` are never kept; an answer without
 * Cache-Control is kept for two hours, so that who forgets `no-store` finds out; `s-maxage`,
 * `must-revalidate` and `proxy-revalidate` switch staleness off; many who ask for one key at once are one run, unless its
 * answer can't be kept: then each runs; a stale answer is given at once while
 * one run fetches a new one; Vary by the exact text of the fields; purges by tags without regard to case, by path, and
 * of everything.
 *
 * Unlike production: one data centre, no upper tier; those who wait for a run get its answer when all of it is there,
 * not as it comes; nothing is evicted; ranges are not cut; the Worker's version is
 * not part of the key; a purge is known at once, and the number of purges has no limit.
 */

const STORABLE = new Set([200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]);
const LONGEST_TAG = 1024;
const UNSAID_S = 7200;

export class FrontCache {
  runs = 0;
  purges = 0;
  #inner;
  #nowMs;
  #stored = new Map();
  #running = new Map();

  /** `inner` answers requests; `nowMs` is the clock that freshness goes by. */
  constructor(inner, { nowMs }) {
    this.#inner = inner;
    this.#nowMs = nowMs;
  }

  /** The answer with `cf-cache-status`: HIT, MISS, UPDATING (stale, and fetched behind), BYPASS or DYNAMIC. */
  async fetch(request) {
    if (request.method !== "GET" && request.method !== "HEAD") return told(await this.#run(request), "DYNAMIC");
    const key = keyOf(request.url);
    const found = this.#find(key, request);
    if (found !== null && this.#ageS(found) < found.freshS) return this.#given(found, request, "HIT");
    if (found !== null && this.#ageS(found) < found.freshS + found.staleS) {
      if (!this.#running.has(key)) this.#lead(key, request).catch(() => {});
      return this.#given(found, request, "UPDATING");
    }
    const leader = this.#running.get(key);
    if (leader !== undefined) {
      const shared = await leader;
      if (shared !== null && matches(shared, request)) return this.#given(shared, request, "HIT");
      return told(await this.#run(request), "BYPASS");
    }
    try {
      const [answer, isKept] = await this.#lead(key, request);
      return told(answer, isKept ? "MISS" : "BYPASS");
    } catch (error) {
      if (found !== null && this.#ageS(found) < found.freshS + found.errorS) return this.#given(found, request, "STALE");
      throw error;
    }
  }

  async purge({ tags = [], pathPrefixes = [], purgeEverything = false }) {
    this.purges += 1;
    const gone = new Set(tags.map((tag) => tag.toLowerCase()));
    for (const [key, variants] of this.#stored) {
      const isOf = (kept) => purgeEverything || kept.tags.some((tag) => gone.has(tag));
      const left = pathPrefixes.some((prefix) => key.startsWith(prefix)) ? [] : variants.filter((v) => !isOf(v));
      if (left.length > 0) this.#stored.set(key, left);
      else this.#stored.delete(key);
    }
    return { success: true };
  }

  async #run(request) {
    this.runs += 1;
    return this.#inner(request);
  }

  /** One run for all who wait; its answer and whether it was kept.  Who waits gets what was kept, or null. */
  async #lead(key, request) {
    let settle;
    this.#running.set(key, new Promise((resolve) => (settle = resolve)));
    let kept = null;
    try {
      // HEAD on a cold key runs as GET.
      const answer = await this.#run(new Request(request, { method: "GET" }));
      kept = await this.#kept(key, request, answer);
      return [kept === null ? answer : bodyOf(kept, request), kept !== null];
    } finally {
      this.#running.delete(key);
      settle(kept);
    }
  }

  async #kept(key, request, answer) {
    const life = lifeOf(request, answer, this.#nowMs());
    if (life === null) return null;
    const vary = namesIn(answer.headers.get("vary"));
    const kept = {
      ...life,
      status: answer.status,
      headers: new Headers(answer.headers),
      body: new Uint8Array(await answer.arrayBuffer()),
      madeMs: this.#nowMs() - 1000 * Number(answer.headers.get("age") ?? 0),
      vary: vary.map((name) => [name, request.headers.get(name)]),
      tags: tagsIn(answer.headers.get("cache-tag")),
    };
    kept.headers.delete("cache-tag");
    const others = (this.#stored.get(key) ?? []).filter((variant) => !matches(variant, request));
    this.#stored.set(key, [...others, kept]);
    return kept;
  }

  #find(key, request) {
    if (request.headers.has("authorization")) return null;
    return (this.#stored.get(key) ?? []).find((variant) => matches(variant, request)) ?? null;
  }

  #given(kept, request, status) {
    const answer = bodyOf(kept, request);
    answer.headers.set("age", String(this.#ageS(kept)));
    return told(answer, status);
  }

  #ageS(kept) {
    return Math.max(0, Math.floor((this.#nowMs() - kept.madeMs) / 1000));
  }
}

/** How long an answer may be kept, in seconds: fresh, stale, stale if a run fails; null if not at all. */
function lifeOf(request, answer, nowMs) {
  const { headers } = answer;
  const says = directivesIn(headers.get("cloudflare-cdn-cache-control") ?? headers.get("cache-control"));
  if (!STORABLE.has(answer.status) || says.has("no-store") || says.has("private") || says.has("no-cache")) return null;
  if (headers.has("set-cookie") || namesIn(headers.get("vary")).includes("*")) return null;
  const isOpen = ["public", "s-maxage", "must-revalidate"].some((name) => says.has(name));
  if (request.headers.has("authorization") && !isOpen) return null;
  const freshS = seconds(says, "s-maxage") ?? seconds(says, "max-age") ?? heuristicS(headers, nowMs);
  if (freshS === null) return null;
  const isStrict = ["s-maxage", "must-revalidate", "proxy-revalidate"].some((name) => says.has(name));
  const staleS = isStrict ? 0 : (seconds(says, "stale-while-revalidate") ?? 0);
  const errorS = isStrict ? 0 : (seconds(says, "stale-if-error") ?? 0);
  return freshS + staleS + errorS > 0 ? { freshS, staleS, errorS } : null;
}

function heuristicS(headers, nowMs) {
  if (headers.has("cache-control")) return null;
  if (!headers.has("expires")) return UNSAID_S;
  return Math.max(0, Math.floor((Date.parse(headers.get("expires")) - nowMs) / 1000) || 0);
}

function directivesIn(text) {
  const parts = (text ?? "").split(",").map((part) => part.trim().toLowerCase()).filter((part) => part !== "");
  return new Map(parts.map((part) => part.split("=", 2)).map(([name, value = ""]) => [name, value.replaceAll('"', "")]));
}

function seconds(says, name) {
  if (!says.has(name)) return null;
  return /^[0-9]+$/.test(says.get(name)) ? Number(says.get(name)) : 0;
}

function namesIn(text) {
  return (text ?? "").split(",").map((name) => name.trim().toLowerCase()).filter((name) => name !== "");
}

/** Tags that are too long, or not printable ASCII, vanish without a word. */
function tagsIn(text) {
  return namesIn(text).filter((tag) => tag.length <= LONGEST_TAG && /^[!-~]+$/.test(tag));
}

function matches(kept, request) {
  return kept.vary.every(([name, value]) => request.headers.get(name) === value);
}

function keyOf(url) {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

function bodyOf(kept, request) {
  const body = request.method === "HEAD" || kept.body.length === 0 ? null : kept.body;
  return new Response(body, { status: kept.status, headers: kept.headers });
}

function told(answer, status) {
  const headers = new Headers(answer.headers);
  headers.set("cf-cache-status", status);
  return new Response(answer.body, { status: answer.status, headers });
}
