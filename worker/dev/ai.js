/**
 * Workers AI's binding as `foretold edge dev` has it: the node's own model answers, whichever is asked for.
 *
 * Unlike production: nothing is charged, every model is there, and all speak OpenAI's shapes.  A node that is busy or
 * gone fails as Workers AI does when it has no room.
 */

export default function bound({ TOLD: { url, model, key } }) {
  return {
    async run(asked, inputs, { signal } = {}) {
      const { prompt, ...rest } = inputs;
      const messages = rest.messages ?? [{ role: "user", content: prompt }];
      const answer = await answered(JSON.stringify({ ...rest, model, messages }), signal);
      if (!answer.ok) throw await failure(asked, answer);
      return inputs.stream ? answer.body : await answer.json();
    },
  };

  async function answered(body, signal) {
    // The model, not the cache before it: Workers AI has none either.
    const headers = { "content-type": "application/json", "cache-control": "no-store" };
    if (key) headers.authorization = `Bearer ${key}`;
    try {
      return await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal });
    } catch {
      throw upstreamError("3040: Capacity temporarily exceeded: the node can't be reached");
    }
  }
}

async function failure(asked, answer) {
  const told = await answer.text();
  if (answer.status === 429 || answer.status === 503) return upstreamError("3040: Capacity temporarily exceeded");
  if (answer.status === 404) return upstreamError(`5007: No such model ${asked}`);
  if (answer.status === 413) return upstreamError("3006: Request is too large");
  return upstreamError(`${answer.status < 500 ? 5006 : 3043}: ${told.slice(0, 200)}`);
}

function upstreamError(message) {
  return Object.assign(new Error(message), { name: "InferenceUpstreamError" });
}
