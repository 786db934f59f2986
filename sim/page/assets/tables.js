// Tables: what figures show, for those who read, copy or listen.

/**
 * A table. `columns`: title, and for its cells `value` of a row with `text` of the value; or `text: true`. Cells keep the
 * number of the document in data-value. `long: true`: sentences.
 */
function addTable(parent, caption, columns, rows) {
  const head = element("tr", {}, ...columns.map((column) =>
    element("th", { scope: "col", class: column.text === true && "text" }, column.title)));
  const body = rows.map((row) => element("tr", {}, ...columns.map((column, i) => cell(column, row, i === 0))));
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head),
    element("tbody", {}, ...body));
  parent.append(element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, table));
  return table;
}

function cell(column, row, isFirst) {
  const value = column.value(row);
  const isText = column.text === true;
  const known = value !== undefined && value !== null;
  const text = !known ? "-" : isText ? String(value) : column.text(value);
  return element(isFirst ? "th" : "td", {
    scope: isFirst && "row", class: isText && (column.long === true ? "text long" : "text"), "data-value": typeof value === "number" && String(value),
  }, text);
}

/** Every value of a document with where it stands in it. */
function addDocument(parent, document) {
  const rows = [];
  collect(document, "", rows);
  const details = element("details", { class: "document" }, element("summary", {}, "Every number of the document (" +
    rows.length + " values)"));
  parent.append(details);
  // Thousands of rows that few ask for.
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    addTable(details, "As --json prints it", [
      { title: "place", value: (row) => row[0], text: true },
      { title: "value", value: (row) => row[1], text: true },
    ], rows);
  });
}

function collect(value, path, rows) {
  if (value === null || typeof value !== "object") {
    rows.push([path, String(value)]);
    return;
  }
  const entries = Array.isArray(value) ? value.map((one, i) => ["[" + i + "]", one]) : Object.entries(value);
  for (const [name, one] of entries) {
    collect(one, path + (Array.isArray(value) || !path ? "" : ".") + name, rows);
  }
}

/** Names and values side by side. */
function addTiles(parent, pairs) {
  parent.append(element("dl", { class: "tiles" }, ...pairs.map(([name, text]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, text)))));
}

function addSection(title, id) {
  const section = element("section", { id, "aria-labelledby": id + "-title" },
    element("h2", { id: id + "-title" }, title));
  document.getElementById("content").append(section);
  return section;
}

function addNotes(parent, title, notes) {
  if (!notes?.length) return;
  parent.append(element("p", { class: "note" }, title + ": " + notes.join("; ")));
}
