/**
 * The edge in workerd with emulators around it and a clock that only tests move: the entry of those tests.
 *
 * `POST /-test/world` begins a new world; `x-test-edge` says which of its edges a request reaches, each with its own
 * memory, in its own place.
 */

import { assemble } from "../../src/assemble.js";
import { recordFrom } from "../../src/stores/front.js";
import { KvStore } from "../../src/stores/kv.js";
import { AiStub } from "../emulators/ai.js";
import { FrontCache } from "../emulators/front.js";
import { KvEmulator } from "../emulators/kv.js";

let world = null;

class World {
  static made = 0;
  #nowMs = Date.now();
  #edges = new Map();
  #places = new Map();
  #fronts = new Map();

  constructor({ settings, secrets = {}, r2 = true, ai = true, limit = null, watched = false }, env) {
    this.nowMs = () => this.#nowMs;
    this.kv = new KvEmulator({ nowMs: this.nowMs });
    this.ai = new AiStub();
    this.env = env;
    this.points = [];
    this.logs = new LogBucket();
    this.bound = {
      FORETOLD_SECRET: "00".repeat(32),
      FORETOLD_SETTINGS: settings,
      FORETOLD_ADMIN_TOKEN: "admin",
      ...secrets,
      ...(r2 ? { PREDICTION_BODIES: env.PREDICTION_BODIES } : {}),
      ...(ai ? { AI: this.ai } : {}),
      ...(limit === null ? {} : { RATE_LIMIT: new Limit(limit) }),
      ...(watched ? { FORETOLD_METRICS: new Dataset(this.points), FORETOLD_LOGS: this.logs } : {}),
    };
    World.made += 1;
    this.number = World.made;
  }

  advance(seconds) {
    this.#nowMs += seconds * 1000;
  }

  edge(name) {
    if (!this.#edges.has(name)) {
      // The isolates of one place share what it has read of KV and its cache; each world has others.
      const [place] = name.split("#");
      const bindings = { ...this.bound, PREDICTION_CACHE: this.place(place) };
      const origin = `http://${place}.world-${this.number}.example`;
      this.#edges.set(name, assemble(bindings, { caches, origin, inner: this.front(place), nowMs: this.nowMs }));
    }
    return this.#edges.get(name);
  }

  /** Workers Cache of a place, before the entrypoint that reads KV. */
  front(name) {
    if (!this.#fronts.has(name)) {
      const kv = new KvStore(this.place(name), { nowMs: this.nowMs });
      this.#fronts.set(name, new FrontCache((request) => recordFrom(kv, request), { nowMs: this.nowMs }));
    }
    return this.#fronts.get(name);
  }

  place(name) {
    if (!this.#places.has(name)) this.#places.set(name, this.kv.at(name));
    return this.#places.get(name);
  }
}

/** The rate-limit binding: so many of a key, then no more. */
class Limit {
  #most;
  #seen = new Map();

  constructor(most) {
    this.#most = most;
  }

  async limit({ key }) {
    this.#seen.set(key, (this.#seen.get(key) ?? 0) + 1);
    return { success: this.#seen.get(key) <= this.#most };
  }
}

/** Analytics Engine: one index, at most 96 bytes of it, 20 blobs of 16 KiB together, 20 doubles. */
class Dataset {
  #points;

  constructor(points) {
    this.#points = points;
  }

  writeDataPoint({ indexes, blobs, doubles }) {
    const bytes = (texts) => new TextEncoder().encode(texts.join("")).length;
    if (indexes.length > 1 || bytes(indexes) > 96) throw new TypeError("more than one index, or more than 96 bytes");
    if (blobs.length > 20 || bytes(blobs) > 16 * 1024) throw new TypeError("too many blobs, or too long");
    if (doubles.length > 20 || !doubles.every(Number.isFinite)) throw new TypeError("too many doubles, or no numbers");
    this.#points.push({ indexes, blobs, doubles });
  }
}

/** R2 as far as logs need it. */
class LogBucket {
  objects = [];
  fails = false;

  async put(name, text) {
    if (this.fails) throw new Error("put: internal error (10001)");
    this.objects.push({ name, text });
  }
}

const COMMANDS = {
  world: (asked, env) => {
    world = new World(asked, env);
    world.edge("here");
  },
  advance: ({ seconds }) => world.advance(seconds),
  fault: ({ kv = null, logs = false }) => {
    world.kv.fault = kv;
    world.logs.fails = logs;
  },
  release: () => world.ai.release(),
  look: () => ({
    kv: { names: world.kv.names(), writes: world.kv.writes, refused: world.kv.refused, reads: world.kv.reads },
    ai: world.ai.calls,
    points: world.points,
    logs: world.logs.objects,
  }),
  front: ({ place = "here" }) => ({ runs: world.front(place).runs, purges: world.front(place).purges }),
  value: ({ name }) => {
    const found = world.kv.newest(name);
    if (found === null) return null;
    return { base64: btoa(String.fromCharCode(...found.value)), keep_s: (found.expiresMs - found.writtenMs) / 1000 };
  },
  put: async ({ name, base64, place }) => {
    await world.place(place).put(name, Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
  },
  flights: ({ edge = "here" }) => world.edge(edge).node.flights.size,
};

export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/-test/")) {
      try {
        const told = await COMMANDS[pathname.slice("/-test/".length)](await request.json(), env);
        return Response.json(told ?? null);
      } catch (error) {
        return Response.json({ error: error.message }, { status: 500 });
      }
    }
    const { app } = world.edge(request.headers.get("x-test-edge") ?? "here");
    return app.fetch(request, { later: (promise) => ctx.waitUntil(promise) });
  },
};
