// The runs of a page: timeline, memory, and the tables of both.

const groupOrder = ["forward", "backward", "GPU update", "CPU update", "copy down", "copy up", "between ranks", "NVMe",
  "selection", "wait", "other"];

class RunsSection {
  constructor(labels, load) {
    this.load = load;
    this.section = addSection("Timeline", "timeline");
    this.choice = element("select", { id: "run" }, ...labels.map((label, i) => element("option", { value: i }, label)));
    this.places = element("select", { id: "place" });
    this.addTimeline();
    this.addMemory();
    this.tables = element("div");
    this.section.append(this.tables);
    this.choose = () => this.show(load(Number(this.choice.value)));
    this.choice.addEventListener("change", () => this.choose());
    this.places.addEventListener("change", () => this.showPlace());
  }

  addTimeline() {
    const canvas = element("canvas", {
      id: "spans", tabindex: "0", role: "application", "aria-describedby": "timeline-help",
      "aria-label": "Timeline of lanes. Arrow keys, plus and minus move and zoom; n and p walk along a lane.",
    });
    const tip = element("div", { class: "tip", hidden: true });
    const live = element("p", { class: "unseen", "aria-live": "polite", id: "said" });
    this.timeline = new TimelineView(canvas, tip, live, () => this.memory?.draw());
    const button = (text, label, work) => {
      const made = element("button", { type: "button", "aria-label": label }, text);
      made.addEventListener("click", work);
      return made;
    };
    this.shown = element("p", { class: "note" });
    this.legend = element("ul", { class: "legend" });
    this.section.append(
      element("div", { class: "bar" }, element("label", { for: "run" }, "Run"), this.choice,
        button("+", "zoom in", () => this.timeline.zoom(1 / 2)), button("−", "zoom out", () => this.timeline.zoom(2)),
        button("‹", "earlier", () => this.timeline.pan(-0.5)), button("›", "later", () => this.timeline.pan(0.5)),
        button("whole run", "show the whole run", () => this.timeline.zoomTo(0, this.timeline.run.end))),
      this.shown, element("div", { class: "drawing" }, canvas, tip), this.legend, live,
      element("p", { class: "note", id: "timeline-help" }, "Drag moves, double click and Ctrl with the wheel zoom. With " +
        "the timeline focused: arrows left and right move, + and − zoom, 0 shows all; n and p go to the next and the " +
        "previous span of a lane, up and down to another lane, b to what the span waited for, a to what waited for it, " +
        "Enter zooms to it."));
  }

  addMemory() {
    const canvas = element("canvas", { id: "memory", role: "img" });
    const tip = element("div", { class: "tip", hidden: true });
    this.memory = new MemoryView(canvas, tip, this.timeline);
    this.memoryBox = element("div", {}, element("h2", {}, "Memory by buffer"),
      element("div", { class: "bar" }, element("label", { for: "place" }, "Of"), this.places),
      element("div", { class: "drawing" }, canvas, tip));
    this.memoryLegend = element("ul", { class: "legend" });
    this.memoryBox.append(this.memoryLegend);
    this.section.append(this.memoryBox);
    onRepaint(() => this.paintLegends());
  }

  show(run) {
    this.run = run;
    this.timeline.show(run);
    this.shown.textContent = run.count < run.spans_in_all
      ? "The first " + numberText(run.count) + " of " + numberText(run.spans_in_all) + " spans are shown, until " +
        timeText(run.end) + "."
      : numberText(run.count) + " spans in " + timeText(run.end) + ".";
    const place = this.places.selectedOptions[0]?.textContent;
    this.places.replaceChildren(...run.memory.map((course, i) =>
      element("option", { value: i, selected: course.place === place }, course.place)));
    this.memoryBox.hidden = run.memory.length === 0;
    this.tables.replaceChildren();
    addLaneTable(this.tables, run);
    if (run.memory.length) this.showPlace();
    this.paintLegends();
  }

  showPlace() {
    const course = this.run.memory[Number(this.places.value)];
    this.memory.show(course);
    this.memory.canvas.setAttribute("aria-label", course.place + " memory over time by buffer, at most " +
      bytesText(this.memory.held.peak) + (course.capacity === null ? "" : " of " + bytesText(course.capacity)));
    this.tables.querySelector(".buffers")?.remove();
    const box = element("div", { class: "buffers" });
    this.tables.append(box);
    addBufferTable(box, course, this.memory.held);
    this.paintLegends();
  }

  paintLegends() {
    if (!this.run) return;
    const groups = groupOrder.filter((group) => this.run.names.some(([, one]) => one === group));
    this.legend.replaceChildren(...groups.map((group) => legendItem(groupColour(group), group)));
    const course = this.run.memory[Number(this.places.value)];
    this.memoryLegend.replaceChildren(...(course?.buffers ?? []).map((buffer, i) =>
      legendItem(colour(memoryHues[i % memoryHues.length]), buffer.name)));
  }
}

function legendItem(shade, text) {
  return element("li", {}, element("i", { style: "background:" + shade }), text);
}

/** How busy each lane is, and what took it longest. */
function addLaneTable(parent, run) {
  const lanes = run.tracks.map((track) => ({ ...track, busy: 0, longest: -1, waited: 0 }));
  for (const row of run.rows) {
    const lane = lanes[row.track];
    for (const span of row.spans) {
      const length = run.end_of[span] - run.start[span];
      if (row.depth === 0) lane.busy += length;
      lane.waited += run.extras[run.extra[span]][1];
      if (lane.longest < 0 || length > run.end_of[lane.longest] - run.start[lane.longest]) lane.longest = span;
    }
  }
  addTable(parent, "Lanes, over the part of the run that the page has", [
    { title: "lane", value: (lane) => words(lane.name), text: true },
    { title: "of", value: (lane) => lane.of, text: true },
    { title: "spans", value: (lane) => lane.spans, text: numberText },
    { title: "busy", value: (lane) => lane.busy, text: timeText },
    { title: "share", value: (lane) => lane.busy / Math.max(run.end, 1), text: percentText },
    { title: "waited", value: (lane) => lane.waited, text: timeText },
    { title: "longest span", value: (lane) => spanName(run, lane.longest) + ", " +
      timeText(run.end_of[lane.longest] - run.start[lane.longest]), text: true },
  ], lanes);
}

function addBufferTable(parent, course, held) {
  const rows = course.buffers.map((buffer, i) => ({ ...buffer, largest: held.largest[i] }));
  addTable(parent, course.place + " memory: buffers" + (course.framework > 0
    ? "; PyTorch's own " + bytesText(course.framework) + " come on top" : ""), [
    { title: "buffer", value: (row) => row.name, text: true },
    { title: "largest", value: (row) => row.largest, text: bytesText },
    { title: "of it always", value: (row) => row.resident, text: bytesText },
    { title: "held", value: (row) => row.held, text: true },
    { title: "kind", value: (row) => words(row.kind), text: true },
    { title: "formula", value: (row) => row.formula, text: true },
  ], rows);
}
