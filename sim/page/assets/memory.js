// Memory over time by buffer, against the limit, below the timeline and for the same part of the run.

const memoryHues = ["forward", "cpu-update", "copy-down", "between-ranks", "gpu-update", "selection", "backward",
  "nvme", "copy-up", "other", "wait-span"];

class MemoryView {
  /** `timeline` says which part of the run is shown. */
  constructor(canvas, tip, timeline) {
    this.canvas = canvas;
    this.tip = tip;
    this.timeline = timeline;
    this.asked = false;
    new ResizeObserver(() => this.resize()).observe(canvas);
    onRepaint(() => this.draw());
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  show(course) {
    this.course = course;
    this.held = heldAfter(course);
    this.resize();
  }

  resize() {
    if (!this.course) return;
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = 220;
    this.canvas.style.height = this.height + "px";
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.paint();
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.paint());
  }

  /** Up to the limit where that does not make the rest a line. */
  top() {
    const { capacity } = this.course;
    const peak = Math.max(this.held.peak, 1);
    return 1.06 * (capacity !== null && capacity < 4 * peak ? Math.max(peak, capacity) : peak);
  }

  paint() {
    this.asked = false;
    if (!this.course || !this.width || !this.timeline.width) return;
    const context = this.canvas.getContext("2d");
    const scale = this.canvas.width / this.width;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colour("panel");
    context.fillRect(0, 0, this.width, this.height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    this.paintAreas(context);
    this.paintScale(context);
    this.paintLimit(context);
  }

  /** In each column of pixels what is held at its highest moment; columns that are alike at once. */
  paintAreas(context) {
    const { timeline } = this;
    const colours = this.course.buffers.map((_, i) => colour(memoryHues[i % memoryHues.length]));
    let begin = timeline.gutter;
    let shown = -1;
    this.eachColumn((x, state) => {
      if (state === shown) return;
      if (shown >= 0) this.paintState(context, shown, begin, x, colours);
      begin = x;
      shown = state;
    });
    if (shown >= 0) this.paintState(context, shown, begin, this.width, colours);
  }

  /** Calls `visit` with each column and the highest state that falls into it. */
  eachColumn(visit) {
    const { course, held, timeline } = this;
    let at = firstAbove(course.at.length, (i) => course.at[i], timeline.timeAt(timeline.gutter));
    for (let x = timeline.gutter; x < this.width; ++x) {
      let highest = at; // the state before change `at`
      const until = timeline.timeAt(x + 1);
      for (; at < course.at.length && course.at[at] <= until; ++at) {
        // Of changes at one instant only the last leaves a state.
        if (course.at[at + 1] === course.at[at]) continue;
        if (held.total[at + 1] > held.total[highest]) highest = at + 1;
      }
      visit(x, highest);
    }
  }

  paintState(context, state, left, right, colours) {
    const perByte = (this.height - 8) / this.top();
    let y = this.height;
    colours.forEach((shade, i) => {
      const size = this.held.bytes[state * colours.length + i] * perByte;
      context.fillStyle = shade;
      context.fillRect(left, y - size, right - left, size);
      y -= size;
    });
  }

  paintScale(context) {
    const top = this.top();
    const step = byteStep(top / 5);
    context.fillStyle = colour("soft");
    for (let bytes = step; bytes < top; bytes += step) {
      const y = this.height - bytes / top * (this.height - 8);
      context.fillRect(this.timeline.gutter - 5, y, 5, 1);
      context.fillText(bytesText(bytes), 6, y);
    }
    context.fillStyle = colour("line");
    context.fillRect(this.timeline.gutter - 1, 0, 1, this.height);
  }

  paintLimit(context) {
    const { capacity } = this.course;
    if (capacity === null || capacity > this.top()) return;
    const y = this.height - capacity / this.top() * (this.height - 8);
    context.fillStyle = colour("limit");
    context.fillRect(this.timeline.gutter, y - 1, this.width, 2);
    const text = "limit " + bytesText(capacity);
    const top = y < 18 ? y + 2 : y - 18;
    context.fillStyle = colour("panel");
    context.fillRect(this.timeline.gutter + 2, top, context.measureText(text).width + 8, 16);
    context.fillStyle = colour("limit");
    context.fillText(text, this.timeline.gutter + 6, top + 8);
  }

  hover(event) {
    if (!this.course) return;
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const { course, held } = this;
    this.tip.hidden = x < this.timeline.gutter;
    if (this.tip.hidden) return;
    const time = this.timeline.timeAt(x);
    const state = firstAbove(course.at.length, (i) => course.at[i], time);
    const parts = course.buffers.map((buffer, i) => [held.bytes[state * course.buffers.length + i], buffer.name]);
    const lines = parts.filter(([bytes]) => bytes > 0).sort((a, b) => b[0] - a[0]);
    this.tip.replaceChildren(element("b", {}, bytesText(held.total[state]) + " at " + timeText(time)),
      ...lines.flatMap(([bytes, name]) => [bytesText(bytes) + " " + name, element("br")]));
    this.tip.style.left = Math.max(0, Math.min(x + 14, this.width - this.tip.offsetWidth - 4)) + "px";
    this.tip.style.top = "1rem";
  }
}

/** What each buffer holds before the first change and after each: rows of buffers, and their sums. */
function heldAfter(course) {
  const buffers = course.buffers.length;
  const states = course.at.length + 1;
  const bytes = new Float64Array(states * buffers);
  const total = new Float64Array(states);
  course.buffers.forEach((buffer, i) => { bytes[i] = buffer.resident; });
  total[0] = course.resident;
  let peak = total[0];
  for (let state = 1; state < states; ++state) {
    bytes.copyWithin(state * buffers, (state - 1) * buffers, state * buffers);
    bytes[state * buffers + course.buffer[state - 1]] += course.bytes[state - 1];
    total[state] = total[state - 1] + course.bytes[state - 1];
    if (course.at[state] !== course.at[state - 1]) peak = Math.max(peak, total[state]);
  }
  const largest = course.buffers.map((_, i) => {
    let most = 0;
    for (let state = 0; state < states; ++state) most = Math.max(most, bytes[state * buffers + i]);
    return most;
  });
  return { bytes, total, peak, largest };
}

/** A round number of bytes of at least `least`, in powers of two. */
function byteStep(least) {
  return Math.pow(2, Math.ceil(Math.log2(Math.max(least, 1))));
}
