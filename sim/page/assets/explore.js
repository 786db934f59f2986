// Sliders: each change is asked of the server, the latest first.

class Explorer {
  /** `showOverview` draws a document, `runs` the run. */
  constructor(page, runs, showOverview) {
    this.runs = runs;
    this.showOverview = showOverview;
    this.page = page;
    this.busy = false;
    this.waiting = false;
    const section = addSection("What if", "what");
    document.getElementById("content").prepend(section);
    this.inputs = page.sliders.map((slider) => this.addSlider(slider));
    this.status = element("p", { class: "note", "aria-live": "polite", id: "answered" }, "As the scenario has it.");
    const reset = element("button", { type: "button" }, "as the scenario has it");
    reset.addEventListener("click", () => this.reset());
    section.append(element("div", { class: "knobs" }, ...this.inputs.map((one) => one.box)), this.status, reset);
  }

  addSlider(slider) {
    const input = element("input", { type: "range", id: "slider-" + slider.name, min: slider.low, max: slider.high,
      step: slider.step, value: slider.value });
    input.value = slider.value;
    const shown = element("output", { for: input.id }, numberText(slider.value));
    const box = element("label", { for: input.id }, slider.label, shown, input);
    const one = { slider, input, shown, box, moved: false };
    input.addEventListener("input", () => {
      one.moved = true;
      shown.textContent = numberText(Number(input.value));
      this.ask();
    });
    return one;
  }

  reset() {
    for (const one of this.inputs) {
      one.moved = false;
      one.input.value = one.slider.value;
      one.shown.textContent = numberText(one.slider.value);
    }
    this.ask();
  }

  /** Values of the sliders that were moved, and the run that is shown. A range input rounds to its steps, so a
      scenario's own value may be one that it cannot show. */
  query() {
    const changed = this.inputs.filter(({ moved }) => moved);
    return [...changed.map(({ slider, input }) => slider.name + "=" + input.value), "run=" + this.runs.choice.value]
      .join("&");
  }

  /** One question at a time; what changes meanwhile is asked when it has been answered. */
  async ask() {
    this.waiting = true;
    if (this.busy) return;
    this.busy = true;
    while (this.waiting) {
      this.waiting = false;
      await this.answer();
    }
    this.busy = false;
  }

  async answer() {
    const begin = performance.now();
    try {
      const response = await fetch("/answer?" + this.query());
      if (!response.ok) throw new Error(await response.text());
      const answer = parsed(await response.text());
      if (answer.error) { this.say(answer.error, true); return; }
      this.showOverview({ ...this.page, document: answer.document });
      this.runs.show(decodeRun(answer.run));
      this.say("Answered in " + Math.round(performance.now() - begin) + " ms.", false);
    } catch (error) {
      this.say("No answer: " + error.message, true);
    }
  }

  say(text, isWrong) {
    this.status.textContent = text;
    this.status.className = isWrong ? "warning" : "note";
  }
}
