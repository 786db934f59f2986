// The timeline: lanes of spans on a canvas. What is drawn grows with the pixels, not with the spans.

const kRow = 20;
const kSteps = 16; // height of the band with steps
const kAxis = 34;  // of it and the axis

class TimelineView {
  /** `changed` is called when the part of the run that is shown changes. */
  constructor(canvas, tip, live, changed) {
    this.canvas = canvas;
    this.tip = tip;
    this.live = live;
    this.changed = changed;
    this.hovered = -1;
    this.selected = -1;
    this.asked = false;
    addTimelineInput(this);
    new ResizeObserver(() => this.resize()).observe(canvas);
    onRepaint(() => this.recolour());
  }

  show(run) {
    this.run = run;
    this.hovered = this.selected = -1;
    this.tip.hidden = true;
    [this.from, this.to] = firstView(run);
    this.recolour();
    this.resize();
    this.changed();
  }

  recolour() {
    if (!this.run) return;
    const groups = new Map(this.run.names.map(([, group]) => [group, groupColour(group)]));
    this.colours = this.run.names.map(([, group]) => groups.get(group));
    this.ink = { line: colour("line"), ink: colour("ink"), soft: colour("soft"), faint: colour("faint"),
      panel: colour("panel"), accent: colour("accent"), wait: colour("wait") };
    this.draw();
  }

  resize() {
    if (!this.run) return;
    const width = this.canvas.clientWidth;
    const height = kAxis + kRow * this.run.rows.length + 4;
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.height = height + "px";
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.width = width;
    this.height = height;
    this.gutter = width < 600 ? 84 : 150;
    this.paint(); // at once: a canvas of a new size is empty
  }

  /** In the next frame, however often it is asked for. */
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.paint());
  }

  x(time) { return this.gutter + (time - this.from) / (this.to - this.from) * (this.width - this.gutter); }
  timeAt(x) { return this.from + (x - this.gutter) / (this.width - this.gutter) * (this.to - this.from); }

  paint() {
    this.asked = false;
    if (!this.run || !this.width) return;
    const scale = this.canvas.width / this.width;
    const context = this.canvas.getContext("2d");
    this.context = context;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = this.ink.panel;
    context.fillRect(0, 0, this.width, this.height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.width - this.gutter, this.height);
    context.clip();
    this.paintSteps();
    this.paintAxis();
    this.run.rows.forEach((row, number) => this.paintRow(row, kAxis + kRow * number));
    this.paintArrows();
    context.restore();
    this.paintLanes();
  }

  paintSteps() {
    const { context, run } = this;
    run.steps.forEach(([number, start, end], i) => {
      if (end < this.from || start > this.to) return;
      const left = Math.max(this.x(start), this.gutter);
      const right = Math.min(this.x(end), this.width);
      if (i % 2 === 0) {
        context.fillStyle = this.ink.faint;
        context.fillRect(left, 0, right - left, this.height);
      }
      if (right - left > 46) {
        context.fillStyle = this.ink.soft;
        context.fillText("step " + number, left + 4, kSteps / 2);
      }
    });
  }

  paintAxis() {
    const { context } = this;
    const step = tickStep((this.to - this.from) * 90 / (this.width - this.gutter));
    context.fillStyle = this.ink.soft;
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = this.x(time);
      context.fillRect(x, kAxis - 5, 1, 5);
      context.fillText(timeText(time), x + 3, kSteps + (kAxis - kSteps) / 2 - 2);
    }
  }

  /** Spans of less than a pixel: the next one looked at is the first that ends beyond it. */
  paintRow(row, top) {
    const { context, run } = this;
    const { spans } = row;
    const ends = (i) => run.end_of[spans[i]];
    const perPixel = (this.to - this.from) / (this.width - this.gutter);
    let i = firstAbove(spans.length, ends, this.from);
    while (i < spans.length && run.start[spans[i]] < this.to) {
      const span = spans[i];
      const left = this.x(run.start[span]);
      const right = this.x(run.end_of[span]);
      this.paintSpan(span, left, right, top);
      ++i;
      if (right - left < 1 && i < spans.length) {
        const pixelEnd = this.timeAt(Math.floor(left) + 1);
        if (run.end_of[spans[i]] < pixelEnd) i = firstAbove(spans.length, ends, pixelEnd - perPixel * 1e-6, i);
      }
    }
    context.fillStyle = this.ink.line;
    context.fillRect(this.gutter, top + kRow - 0.5, this.width - this.gutter, 0.5);
  }

  paintSpan(span, left, right, top) {
    const { context } = this;
    const x = Math.max(left, this.gutter - 2);
    const width = Math.max(Math.min(right, this.width + 2) - x, 1);
    context.fillStyle = this.colours[this.run.name[span]];
    context.fillRect(x, top + 2, width, kRow - 4);
    if (span === this.selected || span === this.hovered) {
      context.strokeStyle = this.ink.ink;
      context.lineWidth = 2;
      context.strokeRect(x, top + 2, width, kRow - 4);
    }
    if (width > 3) {
      context.fillStyle = this.ink.panel;
      context.fillRect(x + width - 0.75, top + 2, 0.75, kRow - 4);
    }
    if (width > 44) this.paintText(spanName(this.run, span), x + 4, width - 8, top + kRow / 2);
  }

  /** As much of it as there is room for. */
  paintText(text, x, room, y) {
    const shown = text.length * 6.6 <= room ? text : text.slice(0, Math.max(Math.floor(room / 6.6) - 1, 1)) + "…";
    this.context.fillStyle = this.ink.panel;
    this.context.fillText(shown, x, y);
  }

  /** What the marked span waited for, and what waited for it. */
  paintArrows() {
    const span = this.hovered >= 0 ? this.hovered : this.selected;
    if (span < 0) return;
    const { context, run } = this;
    const most = 60; // more are one blot
    context.lineWidth = 1.5;
    context.strokeStyle = this.ink.wait;
    for (const before of run.before(span).subarray(0, most)) this.paintArrow(before, span);
    context.strokeStyle = this.ink.accent;
    for (const after of run.after(span).subarray(0, most)) this.paintArrow(span, after);
  }

  paintArrow(from, to) {
    const { context, run } = this;
    const x0 = this.x(run.end_of[from]);
    const y0 = this.middle(from);
    const x1 = this.x(run.start[to]);
    const y1 = this.middle(to);
    const bend = Math.max(Math.abs(x1 - x0) / 2, 12);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.arc(x1, y1, 2.5, 0, 2 * Math.PI);
    context.stroke();
  }

  middle(span) { return kAxis + kRow * this.run.row_of[span] + kRow / 2; }

  paintLanes() {
    const { context, run } = this;
    context.fillStyle = this.ink.panel;
    context.fillRect(0, 0, this.gutter, this.height);
    context.fillStyle = this.ink.line;
    context.fillRect(this.gutter - 1, 0, 1, this.height);
    run.rows.forEach((row, number) => {
      const top = kAxis + kRow * number;
      if (row.depth === 0) {
        context.fillStyle = this.ink.ink;
        context.fillText(clipped(context, laneName(run, row.track), this.gutter - 14), 6, top + kRow / 2);
      }
      context.fillStyle = this.ink.line;
      context.fillRect(0, top + kRow - 0.5, this.gutter, 0.5);
    });
  }

  /** The span at a place of the canvas; -1: none. Of those within a pixel the longest. */
  spanAt(x, y) {
    const { run } = this;
    const row = run.rows[Math.floor((y - kAxis) / kRow)];
    if (!row || x < this.gutter) return -1;
    const slack = (this.to - this.from) / (this.width - this.gutter);
    const time = this.timeAt(x);
    let found = -1;
    let i = firstAbove(row.spans.length, (k) => run.end_of[row.spans[k]], time - 1.5 * slack);
    for (; i < row.spans.length && run.start[row.spans[i]] <= time + slack; ++i) {
      const span = row.spans[i];
      if (found < 0 || run.end_of[span] - run.start[span] > run.end_of[found] - run.start[found]) found = span;
    }
    return found;
  }

  /** Shows from `from` to `to`, within the run and not below ten nanoseconds. */
  zoomTo(from, to) {
    const whole = Math.max(this.run.end, 1);
    const length = Math.min(Math.max(to - from, Math.min(10, whole)), whole);
    this.from = Math.min(Math.max(from, 0), whole - length);
    this.to = this.from + length;
    this.draw();
    this.changed();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.zoomTo(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.zoomTo(this.from + by, this.from + by + (this.to - this.from));
  }

  /** Marks a span, brings it into view and says what it is. */
  select(span) {
    this.selected = span;
    if (span >= 0) {
      const { run } = this;
      if (run.end_of[span] < this.from || run.start[span] > this.to) {
        const half = (this.to - this.from) / 2;
        const middle = (run.start[span] + run.end_of[span]) / 2;
        this.zoomTo(middle - half, middle + half);
      }
      this.live.textContent = spanLines(run, span).join("; ");
    }
    this.draw();
  }
}

/** What is shown first: the whole run, or eight steps of its middle where there are many. */
function firstView(run) {
  const many = 16;
  if (run.steps.length < many) return [0, Math.max(run.end, 1)];
  const begin = Math.floor(run.steps.length / 2) - 4;
  return [run.steps[begin][1], run.steps[begin + 7][2]];
}

/** A round distance of ticks of at least `least`. */
function tickStep(least) {
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(least, 1))));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}

/** With its GPU or process where there are several: "compute, GPU 1". */
function laneName(run, track) {
  const { name, of } = run.tracks[track];
  const several = run.tracks.some((one) => one.of !== of);
  return words(name) + (several && of ? ", " + of.split(" ").slice(0, 2).join(" ") : "");
}

function clipped(context, text, room) {
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > room) shown = shown.slice(0, -2) + "…";
  return shown;
}

/** What there is to say of a span: its name first. */
function spanLines(run, span) {
  const [bytes, stalled, cause] = run.extras[run.extra[span]];
  const step = run.step[span];
  const length = run.end_of[span] - run.start[span];
  const lines = [spanName(run, span)];
  lines.push(words(run.tracks[run.track[span]].name) + (step >= 0 ? ", step " + step : ""));
  lines.push(timeText(length) + ", from " + timeText(run.start[span]) + " to " + timeText(run.end_of[span]));
  if (bytes > 0) lines.push(bytesText(bytes) + (length > 0 ? ", " + numberText(bytes / length) + " GB/s" : ""));
  if (stalled > 0) lines.push("its lane had waited " + timeText(stalled) + " for " + words(cause));
  const before = run.before(span);
  const after = run.after(span);
  if (before.length) lines.push("after " + someNames(run, before));
  if (after.length) lines.push("before " + someNames(run, after));
  return lines;
}

/** "a, b and 3 more", each with its lane. */
function someNames(run, spans) {
  const most = 3;
  const names = Array.from(spans.subarray(0, most),
    (span) => spanName(run, span) + " (" + words(run.tracks[run.track[span]].name) + ")");
  const more = spans.length - names.length;
  return names.join(", ") + (more > 0 ? " and " + more + " more" : "");
}
