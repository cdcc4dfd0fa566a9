/**
 * One data point a query in Analytics Engine, for counts that outlive isolates.
 *
 * Index: the route.  Blobs: how, ended, tier, operation, model, route, detail.  Doubles: milliseconds it took, that the
 * origin would have taken, bytes of the answer's body, status, 1 if it was stored.  A platform that samples tells by
 * `_sample_interval` how many queries a point stands for.  No text of anybody's stands in it.
 */

const LONGEST_INDEX = 96;
const LONGEST_BLOB = 200;

export class Metrics {
  lost = 0;
  #dataset;

  constructor(dataset) {
    this.#dataset = dataset;
  }

  observe({ how, ended, tier, operation, model, route, detail, tookMs, originMs, bodyBytes, status, stored }) {
    const texts = [how, ended, tier, operation, model, route, detail ?? ""];
    try {
      this.#dataset.writeDataPoint({
        indexes: [cut(route, LONGEST_INDEX)],
        blobs: texts.map((text) => cut(text, LONGEST_BLOB)),
        doubles: [tookMs, originMs, bodyBytes, status, stored ? 1 : 0],
      });
    } catch {
      this.lost += 1;
    }
  }
}

/** Limits are in bytes: what is not ASCII is cut earlier than need be, never too late. */
function cut(text, longest) {
  return text.slice(0, Math.floor(longest / (/^[\x00-\x7f]*$/.test(text) ? 1 : 4)));
}
