/** What the operations of vectors about projections do here. */

import { utf8 } from "../src/contract/bytes.js";
import { DONE, split } from "../src/contract/events.js";
import { freshId, transcriptWithFreshIds, wholeWithFreshIds } from "../src/projections/calls.js";
import { pieces } from "../src/projections/fold.js";
import { answerOf, questionOf } from "../src/projections/predict.js";
import { TRANSCRIPT_OF, events, folded, tellsOnlyUsage, whole, withoutUsage } from "../src/projections/shapes.js";
import { objectIn, plain, written } from "../src/projections/verbatim.js";
import { bytesOf, text } from "./values.js";

/** What each event of the transcript tells. */
function transcriptOf({ operation, whole: answer, usage }) {
  const [found, rest] = split(TRANSCRIPT_OF.get(operation)(inMaps(answer), { usage }));
  if (rest.length > 0) throw new Error("the transcript ends in the middle of an event");
  return found.map(told);
}

function told({ raw, data }) {
  if (text(raw) !== `data: ${data}\n\n`) throw new Error(`${JSON.stringify(text(raw))} is no event of one line`);
  return data === DONE ? DONE : JSON.parse(data);
}

async function freshened({ whole: answer, randomness }) {
  const found = inMaps(answer);
  await wholeWithFreshIds(found, bytesOf(randomness));
  return plain(found);
}

function randomnessOf({ randomness }) {
  return randomness === undefined ? null : bytesOf(randomness);
}

function inMaps(value) {
  return objectIn(JSON.stringify(value));
}

export const OPERATIONS = {
  whole_of: ({ operation, transcript }) => plain(folded(operation, bytesOf(transcript))),
  transcript_of: transcriptOf,
  pieces: (given) => pieces(given.text),
  fresh_id: ({ recorded, randomness }) => freshId(recorded, bytesOf(randomness)),
  whole_with_fresh_ids: freshened,
  transcript_with_fresh_ids: (given) => transcriptWithFreshIds(bytesOf(given.transcript), bytesOf(given.randomness)),
  whole: (given) => {
    const { operation, body, shape } = given;
    return whole(operation, bytesOf(body), { shape, randomness: randomnessOf(given) });
  },
  events: (given) => {
    const { operation, body, shape, usage } = given;
    return events(operation, bytesOf(body), { shape, usage, randomness: randomnessOf(given) });
  },
  without_usage: ({ transcript }) => withoutUsage(bytesOf(transcript)),
  tells_only_usage: ({ event }) => tellsOnlyUsage(bytesOf(event)),
  question_of: ({ body }) => utf8(written(questionOf(bytesOf(body)))),
  answer_of: ({ chat }) => answerOf(inMaps(chat)),
};
