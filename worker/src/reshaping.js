/** An answer on its way in the other shape than it came in (rules P1 and P3): all of it, or an error. */

import { utf8 } from "./contract/bytes.js";
import { DONE, split } from "./contract/events.js";
import { OriginCut, OriginError } from "./errors.js";
import { NotAnAnswer } from "./projections/fold.js";
import * as shapes from "./projections/shapes.js";
import { objectIn, written } from "./projections/verbatim.js";

/**
 * A whole answer as a transcript, or a transcript as a whole answer: its status, its body, and its content type or null
 * where it goes out as it came.
 *
 * An error that was told with 200 stays what the origin said: as it came if it came whole, as the body of a 502 if it
 * broke off a stream.  Throws OriginCut for half an answer, OriginError for what is none of its dialect.
 */
export function reshaped(body, operation, { wanted, usage }) {
  return wanted === "events" ? asTranscript(body, operation, { usage }) : asWhole(body, operation);
}

async function asTranscript(body, operation, { usage }) {
  const answer = objectIn(body);
  if (answer !== null && (answer.get("error") ?? null) !== null) return { status: 200, kind: null, body };
  try {
    const told = await shapes.events(operation, body, { shape: "whole", usage });
    return { status: 200, kind: shapes.EVENT_STREAM, body: told };
  } catch (error) {
    throw error instanceof NotAnAnswer || error instanceof TypeError ? noAnswer() : error;
  }
}

async function asWhole(body, operation) {
  let told;
  try {
    [told] = split(body);
  } catch {
    throw noAnswer();
  }
  // Whoever streams reads up to the first [DONE]; what an origin says behind it is no part of the answer.
  const end = told.findIndex((event) => event.data === DONE);
  const isAll = end >= 0;
  let answer;
  try {
    answer = shapes.WHOLE_OF.get(operation)(isAll ? told.slice(0, end) : told);
  } catch (error) {
    if (!(error instanceof NotAnAnswer || error instanceof TypeError)) throw error;
    throw isAll ? noAnswer() : half();
  }
  const error = answer.get("error") ?? null;
  if (error !== null) return { status: 502, kind: shapes.JSON_TYPE, body: utf8(written(new Map([["error", error]]))) };
  if (!isAll) throw half();
  return { status: 200, kind: shapes.JSON_TYPE, body: utf8(written(answer)) };
}

function half() {
  return new OriginCut("the origin's stream ended without its last event, [DONE]: what came is not all of the answer");
}

function noAnswer() {
  return new OriginError("the origin's answer is not one of its dialect: it can't be given in the shape asked for");
}
