// What a document says, by the command that made it.

/** Results of `run` and `compare` as rows with a label that tells them apart. */
function resultRows(page) {
  const scenarios = page.document.scenarios ?? [page.document];
  return scenarios.flatMap((one) => one.results.map((result) => ({
    ...result,
    label: scenarios.length > 1 ? one.scenario + ": " + result.schedule : result.schedule,
    compute: result.gpu_compute_ms,
    stall: result.stall_by_cause_ms,
  })));
}

function addResults(page) {
  const rows = resultRows(page);
  const section = addSection("Step time", "results");
  for (const one of page.document.scenarios ?? [page.document]) {
    section.append(element("p", {}, one.scenario + ": " + one.model.name + ", " +
      numberText(one.model.parameters / 1e9) + " billion parameters, on " + one.hardware.gpus + " GPUs of " +
      one.hardware.name));
    addNotes(section, "Assumed", one.assumptions);
    addNotes(section, "Not modelled", one.not_modelled);
  }
  addStepBars(section, rows);
  addResultTable(section, rows);
  addStallTable(section, rows);
  addMemoryTable(section, rows);
}

function addResultTable(parent, rows) {
  const compared = rows.some((row) => row.speedup_vs_zero_offload !== undefined);
  addTable(parent, "Per step, averaged over whole update windows", [
    { title: "schedule", value: (row) => row.label, text: true },
    { title: "step", value: (row) => row.step_time_ms, text: millisecondsText },
    ...(compared ? [{ title: "vs zero-offload", value: (row) => row.speedup_vs_zero_offload,
      text: (value) => value.toFixed(2) + "x" }] : []),
    { title: "GPU computes", value: (row) => row.gpu_compute_ms, text: millisecondsText },
    { title: "GPU waits", value: (row) => row.gpu_stall_ms, text: millisecondsText },
    { title: "GPU busy", value: (row) => row.gpu_utilization, text: percentText },
    { title: "tokens/s", value: (row) => row.tokens_per_second, text: numberText },
    { title: "MFU", value: (row) => row.mfu, text: percentText },
    { title: "PCIe, model sizes", value: (row) => row.pcie.model_sizes_per_step, text: numberText },
    { title: "staleness", value: (row) => row.staleness_steps.min + " to " + row.staleness_steps.max, text: true },
    { title: "critical path", value: (row) => row.critical_path_ms, text: millisecondsText },
  ], rows);
}

function addStallTable(parent, rows) {
  const causes = [...new Set(rows.flatMap((row) => Object.keys(row.stall)))];
  addTable(parent, "Where the GPU waits, per step", [
    { title: "waits for", value: (row) => row.label, text: true },
    ...causes.map((cause) => ({ title: words(cause), value: (row) => row.stall[cause], text: millisecondsText })),
  ], rows);
}

function addMemoryTable(parent, rows) {
  addTable(parent, "Memory at its highest, beside the limit", [
    { title: "memory", value: (row) => row.label, text: true },
    { title: "one GPU", value: (row) => row.memory.gpu_peak_bytes, text: bytesText },
    { title: "of", value: (row) => row.memory.gpu_capacity_bytes, text: bytesText },
    { title: "host", value: (row) => row.memory.host_peak_bytes, text: bytesText },
    { title: "of", value: (row) => row.memory.host_capacity_bytes, text: bytesText },
    { title: "fits", value: (row) => (row.memory.fits ? "yes" : "NO: " + (row.memory.exceeded ?? []).map(words).join(", ")),
      text: true },
  ], rows);
}

function addCheck(page) {
  const { document } = page;
  const section = addSection("Verdict", "verdict");
  const [least, most] = document.step_time_range_ms;
  section.append(element("p", { class: document.verdict !== "fits" && "warning" },
    words(document.verdict) + ": " + document.decided_by));
  addTiles(section, [
    ["step", millisecondsText(document.step_time_ms) +
      (least < most ? " (" + millisecondsText(least) + " to " + millisecondsText(most) + ")" : "")],
    ["tokens/s", numberText(document.tokens_per_second)],
    ["GPU memory", bytesText(document.memory.gpu_peak_bytes)],
    ["host memory", bytesText(document.memory.host_peak_bytes)],
  ]);
  section.append(element("p", {}, document.bound));
  const row = { label: document.schedule, compute: document.gpu_compute_ms, stall: document.stall_by_cause_ms };
  addStepBars(section, [row]);
  addStallTable(section, [row]);
  addAdvice(document);
  addFacts(document);
}

/** What would help, and what DeepSpeed will say. */
function addAdvice(document) {
  const section = addSection("What would help", "changes");
  if (document.changes.length) {
    addTable(section, "Changes that were simulated", [
      { title: "change", value: (row) => row.what, text: true },
      { title: "step", value: (row) => row.step_time_ms, text: millisecondsText },
      { title: "tokens/s", value: (row) => row.tokens_per_second, text: numberText },
      { title: "times as many", value: (row) => row.gain, text: numberText },
      { title: "but", value: (row) => row.but, text: true },
      { title: "--set", value: (row) => row.set.join(" "), text: true },
    ], document.changes);
  } else {
    section.append(element("p", {}, "No single change that was tried helps."));
  }
  if (document.nearest) {
    section.append(element("p", { class: "warning" }, "Nearest to fitting: " + document.nearest.what + ", with " +
      document.nearest.exceeded + " (--set " + document.nearest.set.join(" --set ") + ")"));
  }
  if (document.findings.length) {
    addTable(section, "What DeepSpeed will reject, ignore or do unexpectedly", [
      { title: "at", value: (row) => row.at, text: true },
      { title: "what", value: (row) => row.severity + " " + row.code + ": " + row.what, text: true },
      { title: "instead", value: (row) => row.instead, text: true },
    ], document.findings);
  }
}

function addFacts(document) {
  const section = addSection("The job", "facts");
  addTable(section, "What was simulated, and who said so", [
    { title: "what", value: (row) => row.path, text: true },
    { title: "value", value: (row) => row.value, text: true },
    { title: "from", value: (row) => (row.estimated ? "estimated: " : "") + row.source, text: true },
  ], document.facts);
}

function addExplanations(page) {
  const list = page.document.explanations;
  const section = addSection("What a step's time is spent on", "results");
  addNotes(section, "Assumed", page.document.assumptions);
  addNotes(section, "Not modelled", page.document.not_modelled);
  for (const one of list) section.append(element("p", {}, one.schedule + ": " + one.bound));
  const parts = (one) => Object.entries(one.path_ms);
  const names = [...new Set(list.flatMap((one) => parts(one).map(([name]) => name)))];
  const hues = [...memoryHues];
  addBars(section, {
    label: "What decides the step time, in milliseconds a step",
    labels: list.map((one) => one.schedule),
    parts: names.map((name, i) => ({
      name: words(name), values: list.map((one) => one.path_ms[name] ?? 0), colour: () => colour(hues[i % hues.length]),
    })),
    unit: millisecondsText, axis: "ms a step on the chain that decides",
  });
  addTable(section, "What decides the step", [
    { title: "schedule", value: (one) => one.schedule, text: true },
    { title: "step", value: (one) => one.step_time_ms, text: millisecondsText },
    ...names.map((name) => ({ title: words(name), value: (one) => one.path_ms[name], text: millisecondsText })),
  ], list);
  addStallTable(section, list.map((one) => ({ label: one.schedule, stall: one.stall_by_cause_ms })));
  addWhatIf(list);
}

function addWhatIf(list) {
  const section = addSection("Twice as fast", "what-if");
  const resources = [...new Set(list.flatMap((one) => Object.keys(one.step_time_ms_if_twice_as_fast)))];
  addBars(section, {
    label: "How many times as fast the step is if one resource is twice as fast",
    labels: resources,
    parts: list.map((one, i) => ({
      name: one.schedule,
      values: resources.map((name) => one.step_time_ms / (one.step_time_ms_if_twice_as_fast[name] ?? NaN)),
      colour: () => colour(memoryHues[i % memoryHues.length]),
    })),
    unit: (value) => value.toFixed(3) + "x", axis: "times as fast", stacked: false,
  });
  addTable(section, "Step time if it is twice as fast", [
    { title: "schedule", value: (one) => one.schedule, text: true },
    ...resources.map((name) => ({ title: name, value: (one) => one.step_time_ms_if_twice_as_fast[name],
      text: millisecondsText })),
  ], list);
}

function addTraces(page) {
  for (const [number, trace] of page.document.traces.entries()) addTrace(trace, number);
}

function addTrace(trace, number) {
  const section = addSection(trace.trace, "trace-" + number);
  section.append(element("p", {}, trace.format + ": " + numberText(trace.events) + " events, " +
    trace.steps.count + " steps (" + words(trace.steps.source) + ")" +
    (trace.steps.mean_ms === null ? "" : ", " + millisecondsText(trace.steps.mean_ms) + " each")));
  for (const problem of trace.problems) section.append(element("p", { class: "warning" }, problem));
  if (trace.devices.length) addDevices(section, trace.devices);
  for (const [key, caption, name] of [["top_kernels", "Kernels that took longest", "kernel"],
    ["top_operators", "Operators of the host that took longest", "operator"]]) {
    if (!trace[key]?.length) continue;
    addTable(section, caption, Object.keys(trace[key][0]).map((column, i) => (i === 0
      ? { title: name, value: (row) => row[column], text: true }
      : { title: words(column.replace(/_ms$/, "")), value: (row) => row[column],
        text: column.endsWith("_ms") ? millisecondsText : column === "share" ? percentText : numberText })), trace[key]);
  }
}

function addDevices(section, devices) {
  const rows = devices.map((one) => ({
    ...one, label: one.name || "GPU " + one.device, compute: one.compute_ms, stall: one.stall_by_cause_ms,
  }));
  addStepBars(section, rows);
  addTable(section, "How busy each GPU is", [
    { title: "GPU", value: (row) => row.label, text: true },
    { title: "from first to last", value: (row) => row.span_ms, text: millisecondsText },
    { title: "busy", value: (row) => row.busy_ms, text: millisecondsText },
    { title: "idle", value: (row) => row.idle_share, text: percentText },
    { title: "kernels", value: (row) => row.kernels, text: numberText },
    { title: "computes", value: (row) => row.compute_ms, text: millisecondsText },
    { title: "between ranks", value: (row) => row.collective_ms, text: millisecondsText },
    { title: "of it exposed", value: (row) => row.collective_exposed_ms, text: millisecondsText },
    { title: "copies", value: (row) => row.copy_ms, text: millisecondsText },
  ], rows);
  addStallTable(section, rows);
}

/** What is shown above the timeline, by the kind of the document. */
const overviews = {
  run: addResults, explore: addResults, compare: addResults, check: addCheck, explain: addExplanations, trace: addTraces, tune: addTuning,
  validate: addValidation, published: addPublished,
};
