// What zenflow-tune found: the choice, the front, and how sure it is.

function settingText(setting) {
  return Object.entries(setting).map(([name, value]) => name + "=" + value).join(", ");
}

/** Knobs in which settings differ, and how. */
function differences(setting, other) {
  if (!other) return settingText(setting);
  const changed = Object.entries(setting).filter(([name, value]) => other[name] !== value);
  return changed.length ? changed.map(([name, value]) => name + "=" + value).join(", ") : "the same";
}

function addTuning(page) {
  addChoice(page.document);
  addFront(page.document);
  addSensitivity(page.document);
}

function addChoice(document) {
  const { chosen, baseline } = document;
  const section = addSection("The choice", "choice");
  const own = baseline?.result;
  addTiles(section, [
    ["step", millisecondsText(chosen.result.step_time_ms)],
    ["own setting", own ? millisecondsText(own.step_time_ms) : "cannot run"],
    ["times as fast", document.speedup === undefined || document.speedup === null ? "-" : numberText(document.speedup)],
    ["GPU memory", bytesText(chosen.result.gpu_peak_bytes)],
    ["staleness, steps", String(chosen.result.staleness_steps_max)],
  ]);
  section.append(element("p", {}, settingText(chosen.setting)));
  if (document.command) section.append(element("p", {}, element("code", {}, document.command)));
  const rows = [["chosen", chosen], ["own setting", baseline], ["published ZenFlow", document.published]]
    .filter(([, one]) => one?.result)
    .map(([label, one]) => ({ label, ...one.result, compute: one.result.gpu_compute_ms,
      stall: one.result.stall_by_cause_ms, setting: one.setting }));
  addStepBars(section, rows);
  addCandidateTable(section, "The choice, and what it is compared with", rows, chosen.setting);
  addStallTable(section, rows);
  addChanges(section, document.changes);
}

function addCandidateTable(parent, caption, rows, reference) {
  addTable(parent, caption, [
    { title: "setting", value: (row) => row.label, text: true },
    { title: "step", value: (row) => row.step_time_ms, text: millisecondsText },
    { title: "tokens/s", value: (row) => row.tokens_per_second, text: numberText },
    { title: "staleness", value: (row) => row.staleness_steps_max, text: numberText },
    { title: "GPU memory", value: (row) => row.gpu_peak_bytes, text: bytesText },
    { title: "host memory", value: (row) => row.needs?.host_memory_bytes, text: bytesText },
    { title: "PCIe, model sizes", value: (row) => row.model_sizes_per_micro_step, text: numberText },
    { title: "differs from the choice by", value: (row) => differences(row.setting, reference), text: true },
  ], rows);
}

function addChanges(parent, changes) {
  if (!changes?.length) return;
  addTable(parent, "Changes of the DeepSpeed file", [
    { title: "change", value: (row) => (typeof row === "string" ? row : JSON.stringify(row)), text: true },
  ], changes);
}

function candidateRows(list, name) {
  return list.map((one, i) => ({ label: name + " " + (i + 1), ...one.result, setting: one.setting }));
}

/** Step time against memory or staleness, of the settings that no other beats. */
function addFront(document) {
  const section = addSection("Pareto front", "front");
  const front = candidateRows(document.pareto_front, "front");
  const single = (one) => (one?.result ? [{ label: "", ...one.result, setting: one.setting }] : []);
  const measures = {
    "GPU memory, GiB": (row) => row.gpu_peak_bytes / 2 ** 30,
    "staleness, steps": (row) => row.staleness_steps_max,
    "PCIe traffic, model sizes": (row) => row.model_sizes_per_micro_step,
  };
  for (const [title, measure] of Object.entries(measures)) {
    const points = (rows) => rows.map((row) => ({ x: row.step_time_ms, y: measure(row),
      text: millisecondsText(row.step_time_ms) + ", " + title + " " + numberText(measure(row)) + ": " +
        differences(row.setting, document.chosen.setting) }));
    addPoints(section, {
      label: "Settings that no other one beats: step time and " + title + ", " + front.length + " of them",
      x: "step time, ms", y: title,
      series: [
        { name: "chosen", points: points(single(document.chosen)), colour: () => colour("limit"), shape: "rectRot", radius: 9 },
        { name: "own setting", points: points(single(document.baseline)), colour: () => colour("cpu-update"),
          shape: "triangle", radius: 7 },
        { name: "front", points: points(front), colour: () => colour("forward") },
      ],
    });
  }
  addCandidateTable(section, "Settings that no other one beats in step time, staleness, GPU memory and traffic at once",
    front, document.chosen.setting);
  if (document.runners_up?.length) {
    addTable(section, "Runners-up", [
      { title: "by", value: (row) => row.difference, text: percentText },
      { title: "error of that", value: (row) => row.error_of_difference, text: percentText },
      { title: "chance of being better", value: (row) => row.chance_of_being_better, text: percentText },
      { title: "differs from the choice by", value: (row) => differences(row.setting, document.chosen.setting), text: true },
    ], document.runners_up);
  }
}

function addSensitivity(document) {
  const section = addSection("Sensitivity", "sensitivity");
  const numbers = (document.numbers ?? []).filter((one) => typeof one.elasticity === "number");
  numbers.sort((a, b) => Math.abs(b.elasticity) - Math.abs(a.elasticity));
  const shown = numbers.filter((one) => Math.abs(one.elasticity) >= 0.001);
  if (shown.length) {
    addBars(section, {
      label: "By how many percent the step time changes for one percent of a number of the profile",
      labels: shown.map((one) => one.number),
      parts: [{ name: "elasticity", values: shown.map((one) => one.elasticity), colour: () => colour("forward") }],
      unit: numberText, axis: "% of the step time for 1 % of the number",
    });
  }
  addTable(section, "Numbers of the profile: what the step time depends on, and how sure they are", [
    { title: "number", value: (row) => row.number, text: true },
    { title: "elasticity", value: (row) => row.elasticity, text: numberText },
    { title: "relative error", value: (row) => row.relative_error, text: percentText },
    { title: "error from", value: (row) => row.from, text: true },
  ], numbers);
  const knobs = element("div", { class: "columns" });
  section.append(knobs);
  for (const knob of document.knobs ?? []) {
    addTable(knobs, knob.knob + ": all else as chosen", [
      { title: knob.knob, value: (row) => String(row.value), text: true },
      { title: "step", value: (row) => row.step_time_ms, text: millisecondsText },
      { title: "GPU memory", value: (row) => row.gpu_peak_bytes, text: bytesText },
      { title: "not feasible for", value: (row) => row.infeasible ?? "", text: true },
    ], knob.values);
  }
}
