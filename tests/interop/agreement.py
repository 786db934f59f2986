"""Do zenflow-sim lint and DeepSpeed's own configuration classes agree?

Run by script/interop in a virtual environment with deepspeed:
  agreement.py ZENFLOW_SIM [--seed N] [--count N] [--exhaustive]
Every configuration that lint passes must be accepted by DeepSpeedConfig, and every one in which it
finds an error "rejected_by": "config" must be refused. Ends with the numbers; disagreements are
shrunk and listed, and the exit code is 1.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import configurations
import documents
from shrink import shrink
from verdicts import DeepSpeed, Says, lint, lint_all

SHOWN = 60  # disagreements listed in full
NEWEST = "0.19.8"
BATCH = 50  # files a process of the linter


class Bench:
    """Asks both sides about a text or a document."""

    def __init__(self, program, folder):
        self._program = program
        self._folder = pathlib.Path(folder)
        self.deepspeed = DeepSpeed()

    def _write(self, name, data):
        file = self._folder / f"{name}.json"
        file.write_bytes(data)
        return file

    def ask(self, data, world_size):
        file = self._write("one", data)
        return (lint(self._program, file, self.deepspeed.version, world_size),
                self.deepspeed.verdict(file, world_size))

    def ask_all(self, samples):
        """Verdicts on (data, world_size) pairs. DeepSpeed's classes stay in this thread."""
        files = [self._write(f"case{i}", data) for i, (data, _) in enumerate(samples)]
        by_size = collections.defaultdict(list)
        for file, (_, world_size) in zip(files, samples):
            by_size[world_size].append(file)
        batches = [(size, same[i:i + BATCH]) for size, same in by_size.items()
                   for i in range(0, len(same), BATCH)]
        linted = {}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for verdicts in pool.map(lambda batch: lint_all(
                    self._program, batch[1], self.deepspeed.version, batch[0]), batches):
                linted.update(verdicts)
        return [(linted[str(file)], self.deepspeed.verdict(file, world_size))
                for file, (_, world_size) in zip(files, samples)]


def differ(linted, deepspeed):
    return linted.says is not deepspeed.says


def report(title, text, linted, deepspeed):
    print(f"\n{title}\n  {text}")
    print(f"  lint:      {linted.says.value} {linted.why}")
    print(f"  deepspeed: {deepspeed.says.value} {deepspeed.why}")


def shrunk(bench, case):
    """The smallest configuration that disagrees in the same direction."""
    direction = bench.ask(case.text().encode(), case.world_size)[0].says

    def fails(document):
        linted, deepspeed = bench.ask(json.dumps(document).encode(), case.world_size)
        return differ(linted, deepspeed) and linted.says is direction
    return shrink(case.document, fails)


def compare_configurations(bench, cases, title):
    """Prints what differs and returns (title, cases, accepted, rejected, differing)."""
    verdicts = bench.ask_all([(case.text().encode(), case.world_size) for case in cases])
    counts = collections.Counter(deepspeed.says for _, deepspeed in verdicts)
    differing = [case for case, (linted, deepspeed) in zip(cases, verdicts)
                 if differ(linted, deepspeed)]
    listed = set()
    for case in differing[:20 * SHOWN]:
        if len(listed) == SHOWN:
            break
        document = shrunk(bench, case)
        text = json.dumps(document)
        if (text, case.world_size) in listed:
            continue
        listed.add((text, case.world_size))
        linted, deepspeed = bench.ask(text.encode(), case.world_size)
        report(f"{title}: disagreement on {case.world_size} ranks", text, linted, deepspeed)
    return (title, len(cases), counts[Says.ACCEPTED], counts[Says.REJECTED], len(differing))


def compare_texts(bench, title, samples):
    """`samples`: (name, bytes, ranks). Prints what differs, and returns as the function above."""
    verdicts = bench.ask_all([(data, world_size) for _, data, world_size in samples])
    differing = 0
    counts = collections.Counter(deepspeed.says for _, deepspeed in verdicts)
    for (name, data, _), (linted, deepspeed) in zip(samples, verdicts):
        if differ(linted, deepspeed):
            differing += 1
            if differing <= SHOWN:
                report(f"{title}: {name}", repr(data[:1000]), linted, deepspeed)
    return (title, len(samples), counts[Says.ACCEPTED], counts[Says.REJECTED], differing)


def compare_hjson(bench, cases, source):
    """Other configurations, without most of the quotes and commas."""
    return compare_texts(bench, "as Hjson", [
        (f"on {case.world_size} ranks",
         configurations.hjson_text(case.document, source).encode(), case.world_size)
        for case in cases])


def compare_documents(bench):
    return compare_texts(bench, "reading",
                         [(name, data, 1) for name, data in documents.samples()])


def compare_keys(program, keys):
    """Whether the table of keys (zenflow-sim list keys), which says what is modelled, has every
    field of DeepSpeed's classes."""
    listed = json.loads(subprocess.run([program, "list", "keys", "--json"], check=True,
                                       capture_output=True, text=True).stdout)
    known = {row["key"] for row in listed["keys"]}
    fields = {f"{block}.{name}" for block, names in keys.items() for name in names}
    missing = sorted(fields - known)
    for name in missing:
        print(f"keys: {name} is not in sim/deepspeed/ds_fields.cpp")
    return ("keys", len(fields), len(fields), 0, len(missing))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="zenflow-sim")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000, help="generated configurations")
    parser.add_argument("--exhaustive", action="store_true",
                        help="also every value at every key, about 15,000 configurations")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.program, folder)
        known = bench.deepspeed.keys()
        keys = configurations.keys_with(known)
        bases = configurations.bases_for(known)
        rows = [compare_configurations(
            bench, configurations.generate(options.seed, options.count, keys, bases),
            "configurations")]
        rows.append(compare_hjson(bench, configurations.generate(
            options.seed + 1, options.count, keys, bases), random.Random(options.seed)))
        if options.exhaustive:
            rows.append(compare_configurations(bench, configurations.every_value(keys, bases),
                                               "every value"))
        rows.append(compare_documents(bench))
        if bench.deepspeed.version == NEWEST:  # the table lists what the newest release takes
            rows.append(compare_keys(options.program, bench.deepspeed.keys()))
    print(f"\nDeepSpeed {bench.deepspeed.version}, seed {options.seed}")
    print(f"{'set':<16}{'cases':>8}{'accepted':>10}{'rejected':>10}{'differ':>8}"
          f"{'agreement':>11}")
    for title, cases, accepted, rejected, differing in rows:
        print(f"{title:<16}{cases:>8}{accepted:>10}{rejected:>10}{differing:>8}"
              f"{100 * (cases - differing) / cases:>9.2f} %")
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if any(row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
