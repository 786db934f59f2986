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
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import configurations
import documents
from shrink import shrink
from verdicts import DeepSpeed, Says, lint

SHOWN = 60  # disagreements listed in full


class Bench:
    """Asks both sides about a text or a document."""

    def __init__(self, program, folder):
        self._program = program
        self._folder = pathlib.Path(folder)
        self.deepspeed = DeepSpeed()

    def ask_lint(self, name, data, world_size):
        file = self._folder / f"{name}.json"
        file.write_bytes(data)
        return lint(self._program, file, self.deepspeed.version, world_size)

    def ask_deepspeed(self, name, world_size):
        return self.deepspeed.verdict(self._folder / f"{name}.json", world_size)

    def ask(self, data, world_size):
        return self.ask_lint("one", data, world_size), self.ask_deepspeed("one", world_size)

    def ask_all(self, samples):
        """Verdicts on (data, world_size) pairs. DeepSpeed's classes stay in this thread."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            linted = list(pool.map(
                lambda item: self.ask_lint(f"case{item[0]}", *item[1]), enumerate(samples)))
        return [(one, self.ask_deepspeed(f"case{i}", samples[i][1]))
                for i, one in enumerate(linted)]


def differ(linted, deepspeed):
    return linted.says is not Says.UNREAD and linted.says is not deepspeed.says


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
    """Prints what differs and returns (title, agreed, accepted, rejected, unread, differing)."""
    verdicts = bench.ask_all([(case.text().encode(), case.world_size) for case in cases])
    counts = collections.Counter(deepspeed.says for _, deepspeed in verdicts)
    unread = sum(linted.says is Says.UNREAD for linted, _ in verdicts)
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
    return (title, len(cases), counts[Says.ACCEPTED], counts[Says.REJECTED], unread,
            len(differing))


def compare_documents(bench):
    samples = documents.samples()
    verdicts = bench.ask_all([(data, 1) for _, data in samples])
    differing = 0
    unread = 0
    counts = collections.Counter(deepspeed.says for _, deepspeed in verdicts)
    for (name, data), (linted, deepspeed) in zip(samples, verdicts):
        unread += linted.says is Says.UNREAD
        if differ(linted, deepspeed):
            differing += 1
            report(f"reading: {name}", repr(data[:300]), linted, deepspeed)
    return ("reading", len(samples), counts[Says.ACCEPTED], counts[Says.REJECTED], unread,
            differing)


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
        keys = configurations.keys_with(bench.deepspeed.keys())
        rows = [compare_configurations(
            bench, configurations.generate(options.seed, options.count, keys), "configurations")]
        if options.exhaustive:
            rows.append(compare_configurations(bench, configurations.every_value(keys),
                                               "every value"))
        rows.append(compare_documents(bench))
    print(f"\nDeepSpeed {bench.deepspeed.version}, seed {options.seed}")
    print(f"{'set':<16}{'cases':>8}{'accepted':>10}{'rejected':>10}{'not read':>10}"
          f"{'differ':>8}{'agreement':>11}")
    for title, cases, accepted, rejected, unread, differing in rows:
        decided = cases - unread
        print(f"{title:<16}{cases:>8}{accepted:>10}{rejected:>10}{unread:>10}{differing:>8}"
              f"{100 * (decided - differing) / decided:>9.2f} %")
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if any(row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
