/**
 * The page that asks a model and shows a miss, then a hit: files of worker/assets, where they are bound.
 *
 * Where the platform serves assets before it runs the Worker, it never asks here.
 */

import { NotFound } from "../errors.js";

export const FILES = new Set(["/", "/foretold.css", "/foretold.js", "/asking.js"]);
const SAID = { "cache-control": "no-cache", "x-content-type-options": "nosniff", "x-frame-options": "DENY" };

export class Page {
  #assets;

  /** `assets` is the binding, or null. */
  constructor(assets) {
    this.#assets = assets;
  }

  /** The file of a path; null for what is none, and where no files are bound.  Throws NotFound for one that is missing. */
  async answer({ method, path }, request) {
    if (this.#assets === null || !FILES.has(path) || (method !== "GET" && method !== "HEAD")) return null;
    // Without the caller's fields: neither credentials nor conditions are for these.
    const file = await this.#assets.fetch(new Request(new URL(path, request.url), { method }));
    if (file.status !== 200) throw new NotFound(`${path} is not among the assets: deploy the folder worker/assets`);
    const headers = new Headers(file.headers);
    for (const [name, value] of Object.entries(SAID)) headers.set(name, value);
    return new Response(file.body, { status: 200, headers });
  }
}
