// Colours: those of the style sheet, for what is drawn; and what happens when they change.

let repaints = [];

/** `repaint` is called when colours or the medium have changed; one that returns false not again. */
function onRepaint(repaint) {
  repaints.push(repaint);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** What a span's colour is called. */
function groupColour(group) {
  const name = group.toLowerCase().replaceAll(" ", "-");
  return colour(name === "wait" ? "wait-span" : name);
}

/** By cause of a stall: the colour of what was waited for. */
const causeColours = {
  cpu_update: "cpu-update", d2h: "copy-down", h2d: "copy-up", collective: "between-ranks", nvme: "nvme",
  selection: "selection", launch: "wait-span", copy_on_device: "gpu-update", other: "other",
  not_recorded: "line", compute: "forward",
};

function causeColour(cause) {
  return colour(causeColours[cause] ?? "other");
}

/** Dark or light, as chosen or as the system has it; paper is light. */
function applyTheme(paper) {
  const chosen = document.getElementById("theme").value;
  const dark = chosen === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
  document.documentElement.dataset.theme = dark && !paper ? "dark" : "light";
  repaints = repaints.filter((repaint) => repaint() !== false);
}

function startThemes() {
  const paper = matchMedia("print");
  document.getElementById("theme").addEventListener("change", () => applyTheme(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(paper.matches));
  paper.addEventListener("change", () => applyTheme(paper.matches));
  applyTheme(paper.matches);
}
