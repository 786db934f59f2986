// What zenflow-validate found: predicted beside measured.

function addValidation(page) {
  const { document } = page;
  const section = addSection("Predicted and measured", "results");
  const { summary, results } = document;
  addTiles(section, [
    ["within tolerance", summary.within_tolerance ? "yes" : "NO"],
    ["mean error of steps", percentText(summary.mean_step_error)],
    ["worst", percentText(summary.worst_step_error)],
    ["runs differ by", percentText(summary.worst_spread)],
  ]);
  if (summary.too_noisy) section.append(element("p", { class: "warning" }, "The machine is too noisy to judge by."));
  section.append(element("p", { class: "note" }, [document.machine, document.device, document.date, document.command]
    .filter(Boolean).join("; ")));
  addNotes(section, "Remarks", document.remarks);
  const rows = results.flatMap((one) => ["predicted", "measured"].filter((side) => one[side].gpu_compute_ms !== undefined)
    .map((side) => ({ label: one.setting + ", " + side, compute: one[side].gpu_compute_ms,
      stall: one[side].stall_by_cause_ms ?? {} })));
  if (rows.length) addStepBars(section, rows);
  addPairs(section, results);
  if (rows.length) addStallTable(section, rows);
  for (const one of results) addPhases(one);
}

function addPairs(section, results) {
  addTable(section, "Step times", [
    { title: "setting", value: (one) => one.setting + (one.calibrated ? " (fitted to)" : ""), text: true },
    { title: "predicted", value: (one) => one.predicted.step_time_ms, text: millisecondsText },
    { title: "measured", value: (one) => one.measured.step_time_ms, text: millisecondsText },
    { title: "error", value: (one) => one.step_error, text: percentText },
    { title: "stall error", value: (one) => one.stall_error, text: percentText },
    { title: "runs", value: (one) => one.runs, text: numberText },
    { title: "runs differ by", value: (one) => one.spread, text: percentText },
    { title: "GPU memory predicted", value: (one) => one.predicted.memory?.gpu_peak_bytes, text: bytesText },
    { title: "measured", value: (one) => one.measured.memory?.gpu_peak_bytes, text: bytesText },
  ], results);
}

/** A setting's phases, predicted above measured. */
function addPhases(one) {
  const both = (key) => Object.keys(one.measured[key] ?? {}).filter((name) => one.predicted[key]?.[name] !== undefined);
  const names = both("phases_ms").filter((name) => one.predicted.phases_ms[name] > 0 || one.measured.phases_ms[name] > 0);
  if (!names.length) return;
  const section = addSection(one.setting, "phases-" + one.setting.replace(/[^a-z0-9]+/gi, "-"));
  addBars(section, {
    label: one.setting + ": phases of a step, predicted above measured, in milliseconds",
    labels: names.map(words),
    parts: [
      { name: "predicted", values: names.map((name) => one.predicted.phases_ms[name]), colour: () => colour("forward") },
      { name: "measured", values: names.map((name) => one.measured.phases_ms[name]), colour: () => colour("cpu-update") },
    ],
    unit: millisecondsText, axis: "ms a step", stacked: false,
  });
  addTable(section, "Phases of a step", [
    { title: "phase", value: (name) => words(name), text: true },
    { title: "predicted", value: (name) => one.predicted.phases_ms[name], text: millisecondsText },
    { title: "measured", value: (name) => one.measured.phases_ms[name], text: millisecondsText },
  ], names);
}
