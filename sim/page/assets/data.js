// Reading what the page carries.

/** What JSON says; names may have control characters, and what turns the direction of text behind. */
function parsed(json) {
  const escaped =
    /\\u(00[01][0-9a-f]|007f|00[89][0-9a-f]|061c|200[ef]|202[89a-e]|206[6-9])/g;
  const written = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
  return JSON.parse(json.replace(escaped, "\\ufffd").replace(written, "\ufffd"));
}

function embedded(id) {
  return parsed(document.getElementById(id).textContent);
}

/** Running sums, each of the numbers before and its own. */
function summed(differences) {
  const sums = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < differences.length; ++i) sums[i] = sum += differences[i];
  return sums;
}

/** Starts, ends and tracks of all spans, from gaps and lengths. */
function spanTimes(run) {
  const count = run.name.length;
  const spans = { start: new Float64Array(count), end_of: new Float64Array(count), track: new Uint16Array(count) };
  let at = 0;
  run.tracks.forEach((track, number) => {
    let previous = 0;
    for (const stop = at + track.spans; at < stop; ++at) {
      spans.start[at] = previous + run.gap[at];
      spans.end_of[at] = previous = spans.start[at] + run.length[at];
      spans.track[at] = number;
    }
  });
  return spans;
}

/**
 * Rows of spans that do not overlap: spans within another are a row lower. Of a row the starts and the
 * ends are in order.
 */
function rowsOf(run, spans) {
  const rows = [];
  let at = 0;
  run.tracks.forEach((track, number) => {
    const depths = [];
    for (const stop = at + track.spans; at < stop; ++at) {
      let depth = 0;
      while (depth < depths.length && depths[depth].until > spans.start[at]) ++depth;
      if (depth === depths.length) depths.push({ until: 0, spans: [] });
      depths[depth].until = Math.max(spans.end_of[at], spans.start[at]);
      depths[depth].spans.push(at);
    }
    depths.forEach((one, depth) => rows.push({ track: number, depth, spans: Uint32Array.from(one.spans) }));
  });
  return rows;
}

/** For each span those at the other end of its dependencies, as one list with the place of each span's part. */
function neighbours(count, ends, others) {
  const first = new Uint32Array(count + 1);
  for (const end of ends) ++first[end + 1];
  for (let i = 0; i < count; ++i) first[i + 1] += first[i];
  const next = first.slice();
  const list = new Uint32Array(ends.length);
  ends.forEach((end, i) => { list[next[end]++] = others[i]; });
  return (span) => list.subarray(first[span], first[span + 1]);
}

/** A run ready to be drawn. */
function decodeRun(run) {
  const spans = spanTimes(run);
  const to = summed(run.flow_to);
  const from = to.map((span, i) => span - run.flow_from[i]);
  const count = run.name.length;
  const rows = rowsOf(run, spans);
  const rowOf = new Uint16Array(count);
  rows.forEach((row, number) => row.spans.forEach((span) => { rowOf[span] = number; }));
  return {
    ...run,
    ...spans,
    step: summed(run.step),
    count,
    rows,
    row_of: rowOf,
    before: neighbours(count, to, from),
    after: neighbours(count, from, to),
    memory: run.memory.map(decodeCourse),
  };
}

/** Totals after each change, and the times of changes; what each buffer holds is found when it is asked for. */
function decodeCourse(course) {
  const resident = course.buffers.reduce((sum, buffer) => sum + buffer.resident, 0);
  return { ...course, at: summed(course.time), resident };
}

/** Place of the first of `list` (by `value`, in order) that is above `limit`. */
function firstAbove(length, value, limit, low = 0) {
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(middle) > limit) high = middle; else low = middle + 1;
  }
  return low;
}

function spanName(run, span) {
  return run.names[run.name[span]][0];
}

function spanGroup(run, span) {
  return run.names[run.name[span]][1];
}
