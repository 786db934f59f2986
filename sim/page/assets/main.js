// The page, from what it carries.

/** Replaces what stands above the timeline; what stands elsewhere stays, with its focus. */
function showOverview(page) {
  const content = document.getElementById("content");
  const others = [...content.children].filter((one) => one.dataset.overview === undefined);
  for (const one of [...content.children]) if (one.dataset.overview !== undefined) one.remove();
  const kept = new Set(others);
  const before = document.getElementById("timeline");
  overviews[page.kind]?.(page);
  addDocument(addSection("Document", "all"), page.document);
  for (const one of [...content.children]) {
    if (kept.has(one)) continue;
    one.dataset.overview = "";
    if (before !== null && one.id !== "all") content.insertBefore(one, before);
  }
}

function startPage() {
  startThemes();
  const page = { ...embedded("page"), document: embedded("document") };
  document.getElementById("title").textContent = page.title;
  document.getElementById("subtitle").textContent = [page.document.tool, page.kind, page.document.version]
    .filter(Boolean).join(" ");
  let runs = null;
  if (page.runs.length) {
    runs = new RunsSection(page.runs, (number) => decodeRun(embedded("run-" + number)));
  }
  showOverview(page);
  if (runs !== null) runs.show(runs.load(0));
  if (page.sliders !== null) {
    const explorer = new Explorer(page, runs, showOverview);
    runs.choose = () => explorer.ask();
  }
  document.documentElement.dataset.ready = "true";
}

startPage();
