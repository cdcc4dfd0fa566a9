/** The edge without its memory and without the Cache API: every hit comes from KV. */

import { assemble } from "../../worker/src/assemble.js";

let app = null;

export default {
  fetch(request, env, ctx) {
    app ??= assemble(env, { caches: null, origin: new URL(request.url).origin }).app;
    return app.fetch(request, { later: (promise) => ctx.waitUntil(promise) });
  },
};
