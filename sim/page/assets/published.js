// What zenflow-validate --published found: predicted beside what others measured.

function addPublished(page) {
  const { document } = page;
  const section = addSection("Predicted and published", "results");
  const { summary } = document;
  addTiles(section, [
    ["judged and predicted", summary.rows + " of " + summary.judged],
    ["mean error", percentText(summary.mean_error)],
    ["signed", signedPercentText(summary.signed_mean_error)],
    ["worst", signedPercentText(summary.worst_error)],
  ]);
  if (summary.worst_row) section.append(element("p", { class: "note" }, "Worst: " + summary.worst_row));
  const counted = document.rows.filter((one) => one.judged && one.error !== undefined);
  if (counted.length) addRatios(section, counted);
  addErrorTable(section, "Errors by schedule", document.by_schedule);
  addErrorTable(section, "Errors by quantity", document.by_quantity);
  addErrorTable(section, "Errors by node", document.by_node);
  addErrorTable(section, "Errors by source", document.by_source);
  addPublishedRows(document.rows);
}

/** Each row's prediction over what was published; a schedule's rows in one colour. */
function addRatios(section, rows) {
  const sorted = [...rows].sort((a, b) => a.error - b.error);
  const schedules = [...new Set(rows.map((one) => one.schedule))];
  const points = (schedule) => sorted.flatMap((one, i) => (one.schedule !== schedule ? [] : [{
    x: i + 1, y: 100 * one.error, text: one.id + ": " + signedPercentText(one.error),
  }]));
  addPoints(section, {
    label: "Error of each judged row, from the smallest to the largest, in percent; " + rows.length + " rows",
    series: schedules.map((schedule, i) => ({
      name: schedule, points: points(schedule), colour: () => colour(memoryHues[i % memoryHues.length]),
      shape: ["circle", "rect", "triangle", "rectRot", "star"][i % 5],
    })),
    x: "rows, by their error", y: "predicted above published, %",
  });
}

function addErrorTable(section, caption, groups) {
  addTable(section, caption, [
    { title: "group", value: (one) => one.name, text: true },
    { title: "rows", value: (one) => one.rows, text: numberText },
    { title: "mean", value: (one) => one.mean_error, text: percentText },
    { title: "signed", value: (one) => one.signed_mean_error, text: signedPercentText },
    { title: "worst", value: (one) => one.worst_error, text: signedPercentText },
    { title: "of", value: (one) => one.worst_row, text: true },
  ], groups);
}

function addPublishedRows(rows) {
  const simulated = rows.filter((one) => one.not_simulated === undefined);
  const section = addSection("Rows", "rows");
  addTable(section, "What was simulated", [
    { title: "row", value: (one) => one.id, text: true },
    { title: "node", value: (one) => one.node, text: true },
    { title: "model", value: (one) => one.model, text: true },
    { title: "schedule", value: (one) => one.schedule, text: true },
    { title: "quantity", value: (one) => one.quantity, text: true },
    { title: "unit", value: (one) => one.unit, text: true },
    { title: "predicted", value: (one) => one.predicted, text: numberText },
    { title: "published", value: (one) => one.published, text: numberText },
    { title: "error", value: (one) => one.error, text: signedPercentText },
    { title: "judged", value: (one) => (one.judged ? "yes" : "no"), text: true },
    { title: "remarks", value: (one) => [one.refused && "refused: " + one.refused,
      one.exceeded && "does not fit: " + one.exceeded.map(words).join(", "), one.cause].filter(Boolean).join("; "),
      text: true, long: true },
    { title: "source", value: (one) => one.source, text: true, long: true },
  ], simulated);
  const records = rows.filter((one) => one.not_simulated !== undefined);
  if (!records.length) return;
  addTable(section, "Kept as records", [
    { title: "row", value: (one) => one.id, text: true },
    { title: "published", value: (one) => one.published, text: numberText },
    { title: "unit", value: (one) => one.unit, text: true },
    { title: "why it is not simulated", value: (one) => one.not_simulated, text: true, long: true },
  ], records);
}
