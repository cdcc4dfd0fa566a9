/** KV for workerd alone, in a Map: what is read and written, without expiry or metadata. */

const values = new Map();

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (request.method === "POST") {
      const { keys } = await request.json();
      const found = keys.map((key) => [key, values.has(key) ? new TextDecoder().decode(values.get(key)) : null]);
      return Response.json(Object.fromEntries(found));
    }
    const name = decodeURIComponent(pathname.slice(1));
    if (request.method === "PUT") {
      values.set(name, await request.arrayBuffer());
      return new Response(null);
    }
    const value = values.get(name);
    return value === undefined ? new Response(null, { status: 404 }) : new Response(value);
  },
};
