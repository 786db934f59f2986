// Charts, by Chart.js. Each stands above a table with the same numbers.

/** A chart in `parent`; `configure` makes its configuration, again whenever colours change. */
function addChart(parent, label, height, configure) {
  const canvas = element("canvas", { role: "img", "aria-label": label });
  const box = element("div", { class: "chart", style: "height:" + height + "px" }, canvas);
  parent.append(box);
  let chart = null;
  const make = () => {
    chart?.destroy();
    if (!canvas.isConnected) return false; // of a result that another one has replaced
    chart = new Chart(canvas, withDefaults(configure()));
    return true;
  };
  onRepaint(make);
  make();
}

function withDefaults(configuration) {
  const options = configuration.options ?? {};
  Chart.defaults.color = colour("soft");
  Chart.defaults.borderColor = colour("line");
  Chart.defaults.font.family = "system-ui, 'DejaVu Sans', sans-serif";
  return { ...configuration, options: { animation: false, responsive: true, maintainAspectRatio: false, ...options } };
}

/**
 * Horizontal bars, a row for each label. `parts`: name, values by label, and what makes the colour. `unit` makes text of
 * a value.
 */
function addBars(parent, { label, labels, parts, unit, axis, stacked = true }) {
  const rows = labels.length * (stacked ? 1 : parts.length);
  addChart(parent, label, (window.innerWidth < 640 ? 160 : 90) + 26 * rows, () => ({
    type: "bar",
    data: {
      labels,
      datasets: parts.map((part) => ({
        label: part.name, data: part.values, backgroundColor: part.colour(), maxBarThickness: 22,
      })),
    },
    options: {
      indexAxis: "y",
      scales: {
        x: { stacked, title: { display: true, text: axis }, beginAtZero: true },
        y: { stacked, ticks: { autoSkip: false, callback: (_, i) => shortened(labels[i]) } },
      },
      plugins: {
        legend: { display: parts.length > 1, position: "bottom", labels: { boxWidth: 12 } },
        tooltip: { callbacks: { label: (item) => item.dataset.label + ": " + unit(item.raw) } },
      },
    },
  }));
}

/** Points. `series`: name, points of x, y and text, what makes the colour, and the shape. */
function addPoints(parent, { label, series, x, y }) {
  addChart(parent, label, 320, () => ({
    type: "scatter",
    data: {
      datasets: series.map((one) => ({
        label: one.name, data: one.points, backgroundColor: one.colour(), pointStyle: one.shape ?? "circle",
        pointRadius: one.radius ?? 5, pointHoverRadius: 8,
      })),
    },
    options: {
      scales: {
        x: { title: { display: true, text: x } },
        y: { title: { display: true, text: y } },
      },
      plugins: {
        legend: { position: "bottom", labels: { usePointStyle: true } },
        tooltip: { callbacks: { label: (item) => item.raw.text } },
      },
    },
  }));
}

function shortened(text) {
  const most = window.innerWidth < 640 ? 18 : 40;
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

/** Step times by what fills them: computing, and each cause of waiting. `rows`: label, compute, stalls, in ms. */
function addStepBars(parent, rows) {
  const causes = [...new Set(rows.flatMap((row) => Object.keys(row.stall).filter((cause) => row.stall[cause] > 0)))];
  const parts = [{ name: "GPU computes", values: rows.map((row) => row.compute), colour: () => colour("forward") }];
  for (const cause of causes) {
    parts.push({
      name: "waits: " + words(cause), values: rows.map((row) => row.stall[cause] ?? 0), colour: () => causeColour(cause),
    });
  }
  addBars(parent, {
    label: "Step time by what fills it, in milliseconds. " + rows.map((row) => stepSentence(row)).join(" "),
    labels: rows.map((row) => row.label), parts, unit: millisecondsText, axis: "ms a step",
  });
}

function stepSentence(row) {
  const stalls = Object.entries(row.stall).filter(([, time]) => time > 0).sort((a, b) => b[1] - a[1]);
  return row.label + ": computes " + millisecondsText(row.compute) +
    stalls.map(([cause, time]) => ", waits " + millisecondsText(time) + " for " + words(cause)).join("") + ".";
}
