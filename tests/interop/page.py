"""Opens the pages of --report in Chromium, without a window, as a reader would.

  page.py PROGRAMS [--screenshots FOLDER]
PROGRAMS is the folder of zenflow-sim, zenflow-tune and zenflow-validate. Needs Debian's chromium, chromium-driver and
python3-selenium. For each command: no error in the browser's console, nothing asked of any network,
every number of every table one of the document, no element made of names that look like one; the
timeline by pointer and keys; themes; paper. Prints how long a page of 100,000 spans takes to open and
to draw.
"""

import argparse
import base64
import gzip
import json
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

SCENARIO = "scenarios/llama2_7b_4xa100.yaml"
HOSTILE = "</script><script>document.title='taken'</script><b id='made'>"
JOB = ["--model", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--gpus", "2", "--ram", "256GB"]


def browser():
    options = Options()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--window-size=1400,1000"):
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_page_load_timeout(30)
    driver.set_script_timeout(30)
    return driver


class Failures:
    """What was found wrong; the test goes on."""

    def __init__(self):
        self.count = 0

    def expect(self, holds, what):
        if holds:
            return
        self.count += 1
        print("WRONG: " + what)


def numbers_of(value):
    """All numbers of a document."""
    if isinstance(value, bool):
        return set()
    if isinstance(value, (int, float)):
        return {float(value)}
    if isinstance(value, dict):
        value = list(value.values())
    return set().union(*map(numbers_of, value)) if isinstance(value, list) else set()


def table_numbers(driver, sections):
    """data-value of the cells of those sections, none of which has numbers of its own making."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => Number(one.dataset.value))",
        ", ".join(f"#{one} td[data-value]" for one in sections))


def has(numbers, value):
    return any(math.isclose(value, one, rel_tol=1e-12, abs_tol=1e-12) for one in numbers)


class Reader:
    def __init__(self, driver, failures, screenshots):
        self.driver = driver
        self.failures = failures
        self.screenshots = screenshots

    def open(self, page, name):
        self.name = name
        begin = time.monotonic()
        self.driver.get("file://" + str(page))
        self.failures.expect(self.ready(), f"{name}: the script did not come to its end")
        return time.monotonic() - begin

    def ready(self):
        return self.driver.execute_script("return document.documentElement.dataset.ready") == "true"

    def check_console(self):
        for entry in self.driver.get_log("browser"):
            self.failures.expect(False, f"{self.name}: console: {entry['message']}")

    def check_network(self):
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            url = message["params"]["request"]["url"]
            self.failures.expect(url.startswith(("file:", "data:", "http://127.0.0.1:")),
                                 f"{self.name}: asked for {url}")

    def check_tables(self, document, sections):
        known = numbers_of(document)
        shown = table_numbers(self.driver, sections)
        self.failures.expect(len(shown) > 0, f"{self.name}: no numbers in {sections}")
        strange = [one for one in shown if not has(known, one)]
        self.failures.expect(not strange, f"{self.name}: not in the document: {strange[:5]}")

    def check_hostile(self):
        self.failures.expect(self.driver.title != "taken", f"{self.name}: a name ran as a script")
        self.failures.expect(not self.driver.find_elements(By.ID, "made"),
                             f"{self.name}: a name became an element")

    def said(self):
        return self.driver.find_element(By.ID, "said").get_attribute("textContent")

    def walk_timeline(self):
        canvas = self.driver.find_element(By.ID, "spans")
        self.driver.execute_script("arguments[0].focus()", canvas)
        heard = []
        for key in ("n", "n", Keys.ARROW_DOWN, "b", Keys.ENTER, "+", "-", Keys.ARROW_RIGHT, "0"):
            ActionChains(self.driver).send_keys(key).perform()
            heard.append(self.said())
        self.failures.expect(heard[0] and heard[1] != heard[0],
                             f"{self.name}: n does not walk along a lane: {heard[:2]}")
        self.failures.expect("from" in heard[2], f"{self.name}: says nothing of a span: {heard[2]}")
        ActionChains(self.driver).move_to_element_with_offset(canvas, 100, 0).perform()
        time.sleep(0.1)
        return heard

    def hover(self):
        """The tip of the first span, at its middle."""
        where = self.driver.execute_script(
            "const box = document.getElementById('spans').getBoundingClientRect();"
            "return [box.width, box.height]")
        canvas = self.driver.find_element(By.ID, "spans")
        for offset in range(8, int(where[0] / 2) - 10, 37):
            ActionChains(self.driver).move_to_element_with_offset(
                canvas, offset, int(44 - where[1] / 2)).perform()
            tips = [one.text for one in self.driver.find_elements(By.CSS_SELECTOR, ".tip") if one.is_displayed()]
            if tips:
                return tips[0]
        return ""

    def shoot(self, name):
        if self.screenshots is None:
            return
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot",
                                           {"captureBeyondViewport": True, "clip": clip})
        (self.screenshots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def theme(self, name):
        Select(self.driver.find_element(By.ID, "theme")).select_by_value(name)

    def width(self, pixels):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": pixels, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
        time.sleep(0.3)

    def print_out(self, name):
        made = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        paper = base64.b64decode(made["data"])
        self.failures.expect(paper.startswith(b"%PDF"), f"{self.name}: cannot be printed")
        if self.screenshots is not None:
            (self.screenshots / f"{name}.pdf").write_bytes(paper)


def make(program, arguments, page, codes=(0,)):
    """The page of a command, and its document."""
    made = subprocess.run([program, *arguments, "--report", page, "-f", "-q", "--json"], check=False,
                          capture_output=True, text=True)
    if made.returncode not in codes:
        sys.exit(f"{program} {arguments}: {made.stderr}")
    return json.loads(made.stdout)


def hostile_scenario(folder):
    """A scenario whose names are markup."""
    text = pathlib.Path(SCENARIO).read_text()
    root = pathlib.Path("scenarios").resolve()
    lines = []
    for line in text.splitlines():
        if line.startswith("name:"):
            line = "name: " + json.dumps(HOSTILE + "\x07")
        elif line.startswith(("model:", "deepspeed:")) and line.split(":")[1].strip():
            key, value = line.split("#")[0].split(":")
            line = f"{key}: {root / value.strip()}"
        lines.append(line)
    file = folder / "hostile.yaml"
    file.write_text("\n".join(lines))
    return file


def long_trace(folder, count):
    """A Chrome trace of so many kernels on eight streams."""
    events = []
    for i in range(count):
        events.append({"ph": "X", "cat": "kernel", "name": f"kernel {i % 200}", "pid": 0, "tid": i % 8,
                       "ts": i * 3.0, "dur": 5.0 + i % 17, "args": {"device": 0, "stream": i % 8}})
    file = folder / "long.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0))
    return file


FRAMES = """
const done = arguments[0];
const canvas = document.getElementById("spans");
canvas.focus();
const times = [];
let frame = 0;
const keys = ["+", "ArrowRight", "-", "ArrowLeft"];
function next(now) {
  times.push(now);
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: keys[frame % 4] }));
  if (++frame < 120) requestAnimationFrame(next);
  else done((times[times.length - 1] - times[0]) / (times.length - 1));
}
requestAnimationFrame(next);
"""


def check_long(reader, sim, folder):
    page = folder / "long.html"
    make(sim, ["explain", "--trace", long_trace(folder, 100_000)], page)
    opened = reader.open(page, "100,000 spans")
    shown = reader.driver.execute_script("return JSON.parse(document.getElementById('run-0').textContent).name.length")
    reader.failures.expect(shown == 100_000, f"{shown} spans, not 100,000")
    size = page.stat().st_size
    reader.failures.expect(size < 5_000_000, f"100,000 spans take {size} bytes")
    frame = reader.driver.execute_async_script(FRAMES)
    loaded = reader.driver.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"100,000 spans: {size / 1e6:.2f} MB, open after {loaded:.0f} ms ({opened:.2f} s with the "
          f"driver), a frame each {frame:.1f} ms")
    reader.check_console()


MOVE = """
const [done, name, value] = [arguments[2], arguments[0], arguments[1]];
const status = document.getElementById("answered");
new MutationObserver((_, observer) => { observer.disconnect(); done(status.textContent); })
  .observe(status, { childList: true });
const slider = document.getElementById("slider-" + name);
slider.value = value;
slider.dispatchEvent(new Event("input"));
"""


def check_explore(reader, sim):
    """Every slider, moved; the numbers are those of the answer."""
    with subprocess.Popen([sim, "explore", SCENARIO, "-q"], stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        reader.name = "explore"
        reader.width(1400)
        reader.driver.get(address)
        reader.failures.expect(reader.ready(), "explore: the script did not come to its end")
        steps = reader.driver.execute_script(
            "return [...document.querySelectorAll('.knobs input')].map((one) => [one.id.slice(7), one.max, one.value])")
        milliseconds = []
        Select(reader.driver.find_element(By.ID, "run")).select_by_index(3)
        for name, most, _ in steps:
            high = "0.5" if name == "topk_ratio" else most
            for value in (high, *[one for known, _, one in steps if known == name]):
                said = reader.driver.execute_async_script(MOVE, name, value)
                reader.failures.expect(said.startswith("Answered in"), f"explore: {name}={value}: {said}")
                if said.startswith("Answered in"):
                    milliseconds.append(int(said.split()[2]))
        document = json.loads(reader.driver.execute_async_script(
            "fetch('/answer?batch=2&run=0').then((one) => one.text()).then(arguments[0])"))["document"]
        reader.driver.execute_async_script(MOVE, "batch", "2")
        reader.check_tables(document, ["results"])
        reader.shoot("explore")
        reader.check_console()
        reader.check_network()
        server.send_signal(signal.SIGINT)
        code = server.wait(20)
        reader.failures.expect(code == 130, f"explore: exit {code} after Ctrl-C")
    milliseconds.sort()
    print(f"explore: {len(milliseconds)} changes answered and drawn, median {milliseconds[len(milliseconds) // 2]} "
          f"ms, worst {milliseconds[-1]} ms")


def check_published(reader, programs, folder):
    """Runs of others: no timeline, errors of every kind of group."""
    page = folder / "published.html"
    document = make(programs / "zenflow-validate", ["--published"], page)
    reader.width(1400)
    reader.open(page, "published")
    reader.check_tables(document, ["results", "rows"])
    simulated = sum("not_simulated" not in row for row in document["rows"])
    shown = len(reader.driver.find_elements(By.CSS_SELECTOR, "#rows table:first-of-type tbody tr"))
    reader.failures.expect(shown >= simulated, f"published: {shown} of {simulated} rows")
    reader.shoot("published-light")
    reader.theme("dark")
    reader.shoot("published-dark")
    reader.width(400)
    over = reader.driver.execute_script("return document.documentElement.scrollWidth")
    reader.failures.expect(over <= 400, f"published: {over} pixels wide on a screen of 400")
    reader.print_out("published")
    reader.check_console()
    reader.check_network()


def check_pages(reader, programs, folder):
    sim = programs / "zenflow-sim"
    pages = {
        "run": (sim, ["run", SCENARIO], ["results"]),
        "hostile": (sim, ["run", hostile_scenario(folder)], ["results"]),
        "compare": (sim, ["compare", SCENARIO, "scenarios/llama2_7b_8xa100.yaml"], ["results"]),
        "check": (sim, ["check", *JOB], ["verdict", "changes"]),
        "explain": (sim, ["explain", SCENARIO], ["results", "what-if"]),
        "trace": (sim, ["explain", "--trace", "tests/data/traces/pytorch_cpu/trace.json.gz"], ["trace-0"]),
        "tune": (programs / "zenflow-tune", [SCENARIO], ["choice", "front", "sensitivity"]),
    }
    for name, (program, arguments, sections) in pages.items():
        page = folder / f"{name}.html"
        document = make(program, arguments, page, (0, 3))
        reader.width(1400)
        reader.open(page, name)
        reader.check_tables(document, sections)
        reader.check_hostile()
        reader.walk_timeline()
        reader.failures.expect(name == "trace" or reader.hover(), f"{name}: no tip on the timeline")
        reader.shoot(f"{name}-light")
        reader.theme("dark")
        reader.shoot(f"{name}-dark")
        reader.width(400)
        over = reader.driver.execute_script("return document.documentElement.scrollWidth")
        reader.failures.expect(over <= 400, f"{name}: {over} pixels wide on a screen of 400")
        reader.shoot(f"{name}-narrow")
        reader.print_out(name)
        reader.check_console()
        reader.check_network()


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("programs", type=pathlib.Path)
    arguments.add_argument("--screenshots", type=pathlib.Path)
    options = arguments.parse_args()
    if options.screenshots is not None:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    failures = Failures()
    driver = browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            reader = Reader(driver, failures, options.screenshots)
            check_pages(reader, options.programs.resolve(), pathlib.Path(folder))
            check_published(reader, options.programs.resolve(), pathlib.Path(folder))
            check_long(reader, options.programs.resolve() / "zenflow-sim", pathlib.Path(folder))
            check_explore(reader, options.programs.resolve() / "zenflow-sim")
    finally:
        driver.quit()
    print(f"{failures.count} wrong")
    return 1 if failures.count else 0


if __name__ == "__main__":
    sys.exit(main())
