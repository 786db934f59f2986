// Pointer and keys of the timeline.

const timelineKeys = {
  "ArrowLeft": (view) => view.pan(-0.2),
  "ArrowRight": (view) => view.pan(0.2),
  "+": (view) => view.zoom(1 / 1.5),
  "=": (view) => view.zoom(1 / 1.5),
  "-": (view) => view.zoom(1.5),
  "Home": (view) => view.zoomTo(0, view.run.end),
  "0": (view) => view.zoomTo(0, view.run.end),
  "n": (view) => view.select(neighbourInRow(view, 1)),
  "p": (view) => view.select(neighbourInRow(view, -1)),
  "ArrowDown": (view) => view.select(spanInRow(view, 1)),
  "ArrowUp": (view) => view.select(spanInRow(view, -1)),
  "b": (view) => view.select(view.selected < 0 ? -1 : view.run.before(view.selected)[0] ?? view.selected),
  "a": (view) => view.select(view.selected < 0 ? -1 : view.run.after(view.selected)[0] ?? view.selected),
  "Enter": (view) => { if (view.selected >= 0) zoomToSpan(view, view.selected); },
  "Escape": (view) => { view.select(-1); view.tip.hidden = true; },
};

/** The next or previous span of the selected one's row; the first in view if there is none. */
function neighbourInRow(view, by) {
  const { run, selected } = view;
  if (selected < 0) return spanInRow(view, 0);
  const { spans } = run.rows[run.row_of[selected]];
  return spans[Math.min(Math.max(spans.indexOf(selected) + by, 0), spans.length - 1)];
}

/** The span of the row `by` further down that is at the selected one's time. */
function spanInRow(view, by) {
  const { run, selected } = view;
  const time = selected < 0 ? view.from : run.start[selected];
  const number = selected < 0 ? 0 : Math.min(Math.max(run.row_of[selected] + by, 0), run.rows.length - 1);
  const { spans } = run.rows[number];
  const at = firstAbove(spans.length, (i) => run.end_of[spans[i]], time);
  return spans[Math.min(at, spans.length - 1)];
}

function zoomToSpan(view, span) {
  const { run } = view;
  const room = Math.max((run.end_of[span] - run.start[span]) * 2, 10);
  view.zoomTo(run.start[span] - room, run.end_of[span] + room);
}

function place(view, event) {
  const box = view.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/** Says beside the pointer what is below it. */
function hover(view, event) {
  const [x, y] = place(view, event);
  const span = view.spanAt(x, y);
  if (span !== view.hovered) {
    view.hovered = span;
    view.draw();
    if (span >= 0) {
      const [name, ...lines] = spanLines(view.run, span);
      view.tip.replaceChildren(element("b", {}, name), ...lines.flatMap((line) => [line, element("br")]));
    }
  }
  view.tip.hidden = span < 0;
  if (span < 0) return;
  view.tip.style.left = Math.max(0, Math.min(x + 14, view.width - view.tip.offsetWidth - 4)) + "px";
  view.tip.style.top = y + 18 + "px";
}

function addTimelineInput(view) {
  const { canvas } = view;
  let dragged = null; // place and part shown where the pointer went down
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: place(view, event)[0], from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!view.run) return;
    if (!dragged) { hover(view, event); return; }
    const by = place(view, event)[0] - dragged.x;
    if (Math.abs(by) > 3) dragged.moved = true;
    if (!dragged.moved) return;
    const time = by / (view.width - view.gutter) * (dragged.to - dragged.from);
    view.tip.hidden = true;
    view.zoomTo(dragged.from - time, dragged.to - time);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved) view.select(view.spanAt(...place(view, event)));
    dragged = null;
  });
  canvas.addEventListener("pointercancel", () => { dragged = null; });
  canvas.addEventListener("pointerleave", () => {
    view.hovered = -1;
    view.tip.hidden = true;
    view.draw();
  });
  canvas.addEventListener("dblclick", (event) => view.zoom(1 / 3, view.timeAt(place(view, event)[0])));
  canvas.addEventListener("wheel", (event) => {
    // Without a key it scrolls the page, unless the timeline has been chosen.
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    view.zoom(Math.exp(event.deltaY * 0.002), view.timeAt(place(view, event)[0]));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !timelineKeys[event.key]) return;
    event.preventDefault();
    timelineKeys[event.key](view);
  });
}
