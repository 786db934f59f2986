"""No input crashes a program, has it wait for ever, or reaches the terminal as it is.

Usage: robustness_test.py TOOLS SOURCE [KIND...]. Each kind of bad input is tried at every place of
inputs.py that reads a file. Bounds are of CPU time and memory, so that a busy machine changes
nothing; what is mutated is drawn with a fixed seed.
"""
import concurrent.futures
import gzip
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import inputs
from programs import CONTROL, Programs, complaints

PROGRAMS = None
LONG = os.environ.get("ZENFLOW_LONG_TESTS") == "1"  # else a third of what is damaged at random
STACK = 64 << 10
# A name that moves the cursor, rings, begins a C1 sequence, turns the text, and is no UTF-8.
NASTY = "\x1b[2J\x07\x9b\u202e\x7fx"


class Kind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="zenflow_robustness_")
        cls.folder = cls.temporary.name
        cls.samples_folder = os.path.join(cls.folder, "samples")
        os.mkdir(cls.samples_folder)
        cls.samples = inputs.make_samples(PROGRAMS, cls.samples_folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.tries = []

    def command(self, one, file, folder):
        study = os.path.join(folder, "study")
        return tuple(
            part.format(source=PROGRAMS.source, samples=self.samples_folder, study=study).replace(
                inputs.FILE, os.fspath(file)) for part in one.command)

    def add(self, what, command, content=None, name=None, **how):
        """One run in a folder of its own; `content` is written to `name` there first."""
        self.tries.append((what, command, content, name, how))

    def add_file(self, what, one, content, **how):
        self.add(f"{one.option}, {one.format}: {what}", one, content, "file" + one.suffix, **how)

    def try_all(self, at_least=1):
        def attempt(number):
            what, command, content, name, how = self.tries[number]
            folder = os.path.join(self.folder, f"try{number}")
            os.mkdir(folder)
            file = os.path.join(folder, name) if name else None
            if callable(content):
                content(file)
            elif content is not None:
                with open(file, "wb") as stream:
                    stream.write(content)
            if isinstance(command, inputs.Input):
                command = self.command(command, file, folder)
            how = dict(how)
            codes = how.pop("codes", (0, 1, 2, 3, 4))
            styled = how.pop("styled", False)
            says = how.pop("says", None)
            before = sorted(os.listdir(folder))
            outcome = PROGRAMS.run(command, folder, **how)
            found = complaints(outcome, codes, styled)
            if says and says not in outcome.err:
                found.append(f"does not say {says!r}")
            if outcome.code in (1, 2, 130) and sorted(os.listdir(folder)) != before:
                found.append(f"left {sorted(os.listdir(folder))}")
            shutil.rmtree(folder)
            if found:
                return f"{what}: {'; '.join(found)}\n  {command}\n  {outcome.err[-300:]!r}"
            return None

        self.assertGreaterEqual(len(self.tries), at_least)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            wrong = [one for one in pool.map(attempt, range(len(self.tries))) if one]
        print(f"{self.id().split('.')[-1]}: {len(self.tries)} inputs, {len(wrong)} wrong",
              file=sys.stderr)
        self.assertFalse(wrong, "\n".join(wrong[:20]))

    def sample(self, format):
        with open(self.samples[format], "rb") as file:
            return file.read()

    def of_file(self, but=("folder", "study")):
        return [one for one in inputs.INPUTS if one.format not in but]


class Registered(Kind):
    def test_every_option_is_listed(self):
        """An option that is listed nowhere may read a file that no kind is tried on."""
        listed = {}
        for one in inputs.INPUTS:
            program, *rest = one.option.split(" ")
            listed.setdefault(program, set()).add(rest[-1])
        for program, words in inputs.OTHER.items():
            commands = [()]
            if program in ("zenflow-sim", "zenflow-calibrate"):
                out = PROGRAMS.run((program, "--help"), self.folder).out.decode()
                commands = [(c,) for c in
                            re.findall(r"^  ([a-z]+)  ", out.split("Subcommands:")[1], re.M)]
            for command in commands:
                if command == ("record",):
                    continue  # its arguments are another program's
                out = PROGRAMS.run((program, *command, "--help"), self.folder).out.decode()
                for option in re.findall(r"^  (\S+)(?: \S+)* ?(?:TEXT|INT|FLOAT|UINT|FILE|TRACE)",
                                         out, re.M):
                    self.assertTrue(option in listed[program] or option in words.split(),
                                    f"{program} {command}: {option} is in no list of inputs.py")

    def test_valid_files_are_read(self):
        """What is mutated is worth it: the samples themselves are read, and what is in them used."""
        for one in inputs.INPUTS:
            if one.format in ("scenario", "config", "profile", "model", "deepspeed", "training",
                              "adapter", "chrome_gz",
                              "space", "rules", "log", "tiny", "tokens", "examples"):
                how = {"codes": (0,)}
                if one.option.startswith("zenflow-validate"):
                    how = {"codes": (0, 4)}  # read, and the prediction is not within the tolerance
                elif one.option == "zenflow-tune --model":  # used: of another job than the trace
                    how = {"codes": (2,), "says": b"is this the scenario, with the settings"}
                elif one.option == "zenflow-calibrate fit --model" or (
                        one.format == "log" and "explain" not in one.option):
                    # Read to the end: these small samples tell no constant.
                    how = {"codes": (2,), "says": b" not used: "}
                self.add_file("valid", one, self.sample(one.format), **how)
        self.try_all(20)


class Files(Kind):
    def test_what_is_no_file(self):
        def fifo(path):
            os.mkfifo(path)

        def loop(path):
            os.symlink(path, path)

        for one in inputs.INPUTS:
            if one.format == "study":
                continue
            codes = (1, 2, 3)
            self.add_file("a pipe", one, fifo, codes=codes)
            self.add_file("a link to itself", one, loop, codes=codes)
            self.add_file("a folder", one, os.mkdir, codes=(0, 1, 2, 3))
            self.add_file("empty", one, b"", codes=(0, 1, 2, 3))
            for path in ("/dev/zero", "/dev/null", "/dev/full", "/dev/tty", "/proc/self/mem",
                         "/none/such"):
                self.add(f"{one.option}: {path}", self.command(one, path, "/none"), codes=codes)
        reading, writing = os.pipe()  # nobody writes, nobody closes
        for one in self.of_file():
            self.add(f"{one.option}: /dev/stdin", self.command(one, "/dev/stdin", "/none"),
                     stdin=reading, codes=(1, 2, 3))
        self.try_all(300)
        os.close(reading)
        os.close(writing)

    def test_names_that_no_file_can_have(self):
        """Longer than the system takes: of what is read, and of what is written."""
        trained = inputs.TRAIN
        simulated = ("zenflow-sim", "run", self.samples["scenario"], "--schedule", "gpu-only")
        for name in ("a" * 300, "b/" * 3000 + "a"):
            for one in inputs.INPUTS:
                if one.format != "study":
                    self.add(f"{one.option}: {name[:2]}",
                             self.command(one, name + one.suffix, "/none"), codes=(1, 2, 3))
            for command in ((*simulated, "--trace"), (*simulated, "--dot"),
                            ("zenflow-sim", "lint", self.samples["deepspeed"], "--fix"),
                            ("zenflow-tune", self.samples["scenario"], "-q", "--vary",
                             "topk_ratio=0.1", "-o"),
                            ("zenflow-calibrate", "probe", "-o", "p.yaml", "--nvme"),
                            ("zenflow-calibrate", "probe", "-o"),
                            (*trained, "--checkpoint"), (*trained, "--log-dir"),
                            (*trained, "--save-model"), (*trained, "--trace"),
                            ("zenflow-validate", "--write")):
                suffix = ".md" if command[-1] == "--write" else ".yaml"
                command = tuple(part.format(source=PROGRAMS.source) for part in command)
                self.add(f"{command[0]} {command[-1]}: {name[:2]}", (*command, name + suffix),
                         codes=(1, 2))
        self.try_all(100)


class ClosedStreams(Kind):
    def test_messages_end_in_no_file(self):
        """What a program opens first would have the number of a stream that is closed."""
        for number, closed in enumerate(((0, 1, 2), (1, 2), (0, 2))):
            logs = os.path.join(self.folder, f"logs{number}")
            train = tuple(part.format(source=PROGRAMS.source) for part in inputs.TRAIN[:-1])
            outcome = PROGRAMS.run((*train, "-v", "--log-dir", logs, "--checkpoint",
                                    f"checkpoints{number}"), self.folder, closed=closed)
            self.assertEqual(outcome.code, 1 if 1 in closed else 0)
            (name,) = os.listdir(logs)
            with open(os.path.join(logs, name), "rb") as file:
                content = file.read()
            self.assertIn(b"train/loss", content)
            self.assertNotIn(b"tokens/s ", content)
        self.add("no output", ("zenflow-sim", "run", self.samples["scenario"]), closed=(1,),
                 codes=(1,), says=b"cannot write")
        self.add("lint of no input", ("zenflow-sim", "lint", "-"), closed=(0,), codes=(1,),
                 says=b"<stdin>: cannot read")
        self.try_all(2)


class Stack(Kind):
    def test_little_stack(self):
        """64 KiB, on which the programs get themselves more."""
        for one in self.of_file():
            self.add_file("valid", one, self.sample(one.format), stack=STACK)
            for name, nested in {"[": b"[" * 100_000, "{": b'{"a":' * 100_000,
                                 "- ": b"- " * 100_000, "events": b'{"traceEvents":[' + b"[" * 99999,
                                 "metadata": b'{"x":' + b"[" * 9999 + b"]" * 9999 +
                                             b',"traceEvents":[]}',
                                 "? ": b"? " * 50_000, "(": b"(" * 100_000,
                                 "lines": b"\n".join(b" " * i + b"a:" for i in range(900))}.items():
                self.add_file(f"nested {name}", one, nested, stack=STACK)
        self.try_all(300)


def damaged(content, draw):
    """A few bytes changed, cut, doubled, or a number replaced by an extreme one."""
    content = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        if not content:
            break
        at = draw.randrange(len(content))
        way = draw.randrange(6)
        numbers = [m.span() for m in re.finditer(rb"-?\d+(\.\d+)?", bytes(content[:200_000]))]
        if way < 3 and numbers:
            first, last = draw.choice(numbers)
            content[first:last] = draw.choice(
                (b"0", b"-1", b"9223372036854775807", b"-9223372036854775808", b"1e308", b"1e-300",
                 b"18446744073709551616", b"4294967296", b"NaN", b'"x"', b"null", b"[]", b"{}",
                 b"1000000", b"2147483647", b"1e999", b"true", b"99999999999999999999999999"))
        elif way == 3:
            content[at] = draw.randrange(256)
        elif way == 4:
            del content[at:at + draw.choice((1, 10, len(content)))]
        else:
            content[at:at] = content[at:at + draw.choice((1, 20, 400))]
    return bytes(content)


class Damage(Kind):
    def test_damaged_files(self):
        draw = random.Random(20261126)
        for one in self.of_file():
            sample = self.sample(one.format)
            for number in range(12):
                content = damaged(sample, draw)
                if LONG or number % 3 == 0:
                    self.add_file(f"damage {number}", one, content, stack=STACK)
        self.try_all(400 if LONG else 130)

    def test_extreme_events(self):
        """Every field of an event, and of what a recording says of itself, with every extreme."""
        extremes = (0, -1, 2**31, -2**31, 2**53, 2**63 - 1, -2**63, 2**64, 1e300, -1e300, "", "x",
                    None, [], {}, True)
        traces = [one for one in inputs.INPUTS
                  if one.format in ("chrome", "own") and one.option.split(" ")[-1] != "SCENARIO"]
        draw = random.Random(7)
        documents = {name: json.loads(self.sample(name)) for name in ("chrome", "own")}
        for one in traces:
            document = documents[one.format]
            for number in range(40):
                changed = dict(document, traceEvents=list(document["traceEvents"][:2000]))
                if number % 4 == 0:
                    keys = [key for key in changed if key != "traceEvents"]
                    changed[draw.choice(keys)] = draw.choice(extremes)
                else:
                    place = draw.randrange(len(changed["traceEvents"]))
                    event = json.loads(json.dumps(changed["traceEvents"][place]))
                    fields = draw.choice([event] + [v for v in event.values()
                                                    if isinstance(v, dict) and v])
                    fields[draw.choice(list(fields))] = draw.choice(extremes)
                    changed["traceEvents"][place] = event
                if LONG or number % 3 == 0:
                    self.add_file(f"event {number}", one, json.dumps(changed).encode(), stack=STACK)
        self.try_all(200 if LONG else 65)


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
KERNEL = ("x AS start, x+1 AS end, 0 AS deviceId, 1 AS contextId, 7 AS streamId, x AS correlationId, "
          "1 AS globalPid, 1 AS demangledName, 1 AS shortName, 1 AS mangledName")


class Databases(Kind):
    def test_exports(self):
        kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
        drop = f"DROP TABLE {kernels}"
        changes = {
            "endless view": [drop, f"CREATE VIEW {kernels} AS {ENDLESS}SELECT {KERNEL} FROM c"],
            "endless view of nothing":
                [drop, f"CREATE VIEW {kernels} AS {ENDLESS}SELECT {KERNEL} FROM c WHERE x < 0"],
            "blobs made on the fly":
                [drop, f"CREATE VIEW {kernels} AS {ENDLESS}SELECT {KERNEL}, zeroblob(900000000) AS "
                       "more FROM c"],
            "cross joins": [drop, f"CREATE VIEW {kernels} AS SELECT 1 AS start FROM "
                            + ",".join(f"NVTX_EVENTS n{i}" for i in range(40))],
            "endless strings": ["DROP TABLE StringIds", f"CREATE VIEW StringIds AS {ENDLESS}SELECT "
                                "x AS id, hex(zeroblob(1000000)) AS value FROM c"],
            "endless ranges": ["DROP TABLE NVTX_EVENTS", f"CREATE VIEW NVTX_EVENTS AS {ENDLESS}"
                               "SELECT x AS start, x AS end FROM c"],
            "an endless view of another name":
                [f"CREATE VIEW other AS {ENDLESS}SELECT x AS start, x AS end FROM c"],
            "an endless view of graphs": [f"CREATE VIEW CUPTI_ACTIVITY_KIND_GRAPH_TRACE AS {ENDLESS}"
                                          "SELECT x AS start, x AS end FROM c WHERE x < 0"],
            "a trigger": [f"CREATE TRIGGER t AFTER INSERT ON {kernels} BEGIN SELECT 1; END"],
            "columns made on the fly": [f"ALTER TABLE {kernels} ADD COLUMN more AS "
                                        "(hex(zeroblob(400000000)))"],
            "thousands of tables": [f"CREATE TABLE t{i} (start, end)" for i in range(4000)],
            "a large value": ["INSERT INTO StringIds VALUES (9, zeroblob(50000000))"],
        }
        for one in inputs.INPUTS:
            if one.format == "nsight":
                for name, sql in changes.items():
                    self.add_file(name, one, lambda path, sql=sql: inputs.nsight(path, sql))
        self.try_all(40)

    def test_studies(self):
        changes = {
            "endless view": ["DROP TABLE evaluations", f"CREATE VIEW evaluations AS {ENDLESS}SELECT "
                             "x AS setting, zeroblob(8) AS numbers FROM c WHERE x < 0"],
            "endless keys": ["DROP TABLE study", f"CREATE VIEW study AS {ENDLESS}SELECT x AS key, "
                             "x AS value FROM c"],
            "trigger": ["CREATE TRIGGER t AFTER INSERT ON evaluations BEGIN INSERT INTO counts "
                        f"{ENDLESS}SELECT x, x FROM c; END", "DELETE FROM evaluations"],
            "trigger on what is written last": ["CREATE TRIGGER t AFTER DELETE ON counts BEGIN "
                                                f"INSERT INTO counts {ENDLESS}SELECT x, x FROM c; "
                                                "END"],
            "view of counts": ["DROP TABLE counts", "CREATE VIEW counts AS SELECT 1 AS ending"],
            "made on the fly": ["DROP TABLE evaluations", "CREATE TABLE evaluations (setting TEXT "
                                "PRIMARY KEY, numbers AS (zeroblob(900000000)))"],
            "a check": ["DROP TABLE evaluations", "CREATE TABLE evaluations (setting TEXT PRIMARY "
                        "KEY, numbers BLOB CHECK (length(hex(zeroblob(400000000))) > 1))",
                        "INSERT INTO evaluations(setting) VALUES ('a')"],
            "another table": ["CREATE TABLE other (a)"],
            "an index": [f"CREATE INDEX i ON evaluations (numbers)"],
        }
        one = next(one for one in inputs.INPUTS if one.format == "study")
        for name, sql in changes.items():
            def change(path, sql=sql):
                study = os.path.join(os.path.dirname(path), "study")
                shutil.copytree(self.samples["study"], study)
                database = sqlite3.connect(os.path.join(study, "study.sqlite"))
                for statement in sql:
                    database.execute(statement)
                database.commit()
                database.close()
            self.add_file(name, one, change, codes=(2,), says=b"is no study of zenflow-tune")
        for beside in ("-journal", "-wal", "-shm"):
            def put(path, beside=beside):
                study = os.path.join(os.path.dirname(path), "study")
                shutil.copytree(self.samples["study"], study)
                os.mkfifo(os.path.join(study, "study.sqlite" + beside))
            self.add_file(f"a pipe beside it, {beside}", one, put, codes=(2,),
                          says=b"is not a regular file")
        self.try_all(12)


class Bombs(Kind):
    def write_bomb(self, path, head, unit, mebibytes, tail=b""):
        """Gzip members, one of 16 MiB many times over."""
        part = gzip.compress(unit * ((16 << 20) // len(unit)), 6)
        with open(path, "wb") as file:
            file.write(gzip.compress(head))
            for _ in range(mebibytes // 16):
                file.write(part)
            file.write(gzip.compress(tail))

    def test_what_inflates(self):
        """Small enough to be read to the end; what is kept of it is bounded."""
        event = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1},'
        bombs = {
            "blanks": (b'{"traceEvents":[', b" ", b"]}"), "newlines": (b"", b"\n", b""),
            "one line": (b"", b"x", b""), "empty events": (b'{"traceEvents":[', b"{},", b"{}]}"),
            "tiny events": (b'{"traceEvents":[', b'{"ph":"X"},', b"{}]}"),
            "events": (b'{"traceEvents":[', event, b"{}]}"),
            "one string": (b'{"traceEvents":[{"ph":"X","name":"', b"a", b'"}]}'),
            "keys": (b"{", b'"a":1,', b'"traceEvents":[]}'),
            "brackets": (b'{"traceEvents":[', b"[", b""),
            "arguments": (b'{"traceEvents":[{"ph":"X","args":{', b'"a":1,', b'"b":1}}]}'),
            "timers": (b"", b"[Rank 0] time (ms) | fwd: 1.0 | bwd: 2.0\n", b""),
        }
        for one in inputs.INPUTS:
            if one.format == "chrome_gz":
                for name, (head, unit, tail) in bombs.items():
                    self.add_file(name, one, lambda path, head=head, unit=unit, tail=tail:
                                  self.write_bomb(path, head, unit, 64, tail))
        self.try_all(len(bombs))

    def test_texts(self):
        for one in self.of_file():
            for name, text in {
                    "comments": b"# a\n" * 1_500_000, "block comments": b"/**/" * 1_500_000,
                    "comments behind a value": b"{" + b"#\n" * 3_000_000 + b"}",
                    "commas": b'{"a":1' + b",\n" * 400_000 + b"}",
                    "values": b"{" + b",".join(b'"k%d":1' % i for i in range(60_000)) + b"}",
                    "hjson values": b"{" + b"\n".join(b"k%d: 1" % i for i in range(60_000)) + b"}",
                    "large": b" " * (9 << 20)}.items():
                if one.format in ("deepspeed", "model", "scenario", "tiny", "rules", "probe"):
                    self.add_file(name, one, text)
        self.try_all(80)

    def test_patterns(self):
        names = ("a" * 60 + "!", "a" * 2000 + "!")
        with open(os.path.join(self.samples_folder, "long.json"), "w", encoding="ascii") as file:
            json.dump(inputs.chrome(names), file)
        traced = ("zenflow-sim", "explain", "--trace", os.path.join(self.samples_folder,
                                                                     "long.json"))
        for pattern in ("(a+)+", "(a|aa)+", "(.*)*b", "(a*)*c", "(([a-z])+.)+[A-Z]([a-z])+",
                        "(a{1,100}){1,100}", "((a{1,99}){1,99}){1,99}", ".*.*.*.*.*.*.*.*=",
                        "(?=(a+))a*b", r"(a)\1*b", "(a|a)*b", "(" * 500 + "a" + ")" * 500,
                        "a{1,1000}" * 50, "(", "[", "*", "\\", "(?i)a", "[[:alpha:]]+", "a" * 2000,
                        NASTY):
            for stack in (None, STACK):
                self.add(f"--steps {pattern[:20]}", traced + ("--steps", pattern), stack=stack)
                self.add(f"--rules {pattern[:20]}",
                         traced + ("--rules", "rules.yaml"),
                         json.dumps({"steps": [pattern], "phases": [
                             {"phase": "forward", "kernel": pattern}]}).encode(), "rules.yaml",
                         stack=stack)
                # A scenario's adapters, and what freezes tensors, are chosen by patterns as well.
                for lora in (f"{{r: 8, targets: {json.dumps(pattern)}}}",
                             f"{{r: 8, targets: [{json.dumps(pattern)}]}}"):
                    self.add(f"lora {pattern[:20]}",
                             ("zenflow-sim", "run", self.samples["scenario"], "--set",
                              "training.lora=" + lora), stack=stack)
        self.try_all(140)


def node_by_parts(gpus, sockets):
    return (f"hardware={{gpu: a100_sxm_40g, gpus_per_node: {gpus}, host: {{sockets: {sockets}, "
            "cores_per_socket: 24, memory: 1152 GiB, dram_channels_per_socket: 6, dram_rate: 2933 "
            "MT/s}, host_link: {pcie: 4, lanes: 16, gpus_per_switch: 2}, gpu_link: nvlink3}")


class Sizes(Kind):
    def test_settings(self):
        """Simulated within bounds, or refused by what is stated."""
        sizes = {
            "update_interval": ["update_interval=100000", "max_staleness=1000000"],
            "intervals": ["update_interval=1000000", "select_interval=1000000",
                          "max_staleness=10000000"],
            "accumulation": ["training.gradient_accumulation_steps=100000",
                             "deepspeed.gradient_accumulation_steps=100000"],
            "sub_group_size": ["deepspeed.zero_optimization.sub_group_size=1"],
            "bucket": ["deepspeed.zero_optimization.reduce_bucket_size=1"],
            "steps": ["run.steps=100000", "update_interval=4", "select_interval=99991"],
            "warm-up": ["full_warm_up_rounds=1000000"],
            "GPUs": [node_by_parts(4096, 2), "gpus=4096"],
            "sockets": [node_by_parts(4, 1000000), "gpus=4"],
            "nodes": ["nodes=4096"], "sequence": ["training.sequence_length=1000000000"],
            "micro-batch": ["training.micro_batch_size_per_gpu=1000000000"],
        }
        model = json.loads(self.sample("model"))
        for layers in (1000, 4096, 100_000, 10**9):
            path = os.path.join(self.samples_folder, f"layers{layers}.json")
            with open(path, "w", encoding="ascii") as file:
                json.dump(dict(model, num_hidden_layers=layers), file)
            sizes[f"{layers} layers"] = [f"model={path}"]
        for name, settings in sizes.items():
            flags = sum((("--set", one) for one in settings), ())
            for command in ("run", "explain", "fit", "compare"):
                self.add(f"{name}: {command}",
                         ("zenflow-sim", command, self.samples["scenario"], *flags))
            self.add(f"{name}: tune", ("zenflow-tune", self.samples["scenario"], "-q", *flags,
                                       "--vary", "topk_ratio=0.1", "--vary", "stage=2"))
        self.add("refused", ("zenflow-sim", "run", self.samples["scenario"], "--set",
                             "deepspeed.gradient_accumulation_steps=100000", "--set",
                             "training.gradient_accumulation_steps=100000"), codes=(2,),
                 says=b"--set run.max_tasks=N allows more")
        self.try_all(70)

    def test_lists(self):
        scenario = self.samples["scenario"]
        many = "update_interval=" + ",".join(str(i) for i in range(1, 15_000))
        for values in ("topk_ratio=0:1:0.000000001", "topk_ratio=0.1:0.2:0.0000001",
                       "update_interval=1:1000000000:1", "topk_ratio=0:1:1e-300", many):
            for command in (("zenflow-sim", "sweep"), ("zenflow-tune",)):
                if command[0] == "zenflow-sim" and values == many:
                    continue  # a valid sweep, which tells how far it is
                self.add(f"{command} {values[:30]}", (*command, scenario, "--vary", values),
                         codes=(2,))
        self.add("a space", ("zenflow-tune", scenario, "--search-space", "space.yaml"),
                 json.dumps({"update_interval": list(range(1, 50_000))}).encode(), "space.yaml",
                 codes=(2,), says=b"--max-points")
        self.try_all(9)


class ControlCharacters(Kind):
    def nasty_files(self):
        """Every text of a file that may be shown, with what a terminal obeys."""
        def scenario(**more):
            text = self.sample("scenario").decode()
            for key, value in more.items():
                text = re.sub(rf"^{key}:.*$", "", text, flags=re.M) + f"\n{key}: {value}\n"
            return text.encode()
        word = json.dumps(NASTY)
        deepspeed = json.loads(self.sample("deepspeed"))
        model = json.loads(self.sample("model"))
        trace = inputs.chrome((NASTY, NASTY))
        trace[NASTY] = trace["traceName"] = NASTY
        trace["traceEvents"] += [
            {"ph": "X", "cat": NASTY, "name": NASTY, "pid": 1, "tid": 1, "ts": 1, "dur": 1},
            {"ph": NASTY}, {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1,
                            "args": {"name": NASTY}}]
        header = json.dumps({NASTY: {"dtype": "BF16", "shape": [2, 2],
                                     "data_offsets": [0, 8]}}).encode()
        yield "scenario", [scenario(**{key: word}) for key in
                           ("name", "model", "hardware", "deepspeed", "base", "gpus")] + \
            [scenario(schedules=f"[{word}]"), scenario(training=f"{{{word}: 1}}"),
             scenario(run=f"{{steps: {word}}}"), scenario(launch=f"{{target: {word}}}"),
             scenario() + f"\n{word}: 1\n".encode()]
        yield "deepspeed", [json.dumps(one).encode() for one in
                            (dict(deepspeed, **{NASTY: 1}),
                             dict(deepspeed, zero_optimization={NASTY: NASTY}),
                             dict(deepspeed, optimizer={"type": NASTY}))] + \
            ["{\u009b\u202ea: \u009b\u202e\n}".encode()]
        for format in ("model", "tiny"):
            yield format, [json.dumps(dict(model, **{key: NASTY})).encode() for key in
                           ("model_type", "hidden_act", "torch_dtype", "hidden_size", NASTY)]
        yield "chrome", [json.dumps(trace).encode(), json.dumps(trace, ensure_ascii=False).encode()]
        yield "log", [f"[Rank 0] time (ms) | {NASTY}: 1.0 | bwd: 2.0\n".encode() * 4]
        yield "weights", [len(header).to_bytes(8, "little") + header + bytes(8)]
        yield "rules", [f"{word}: 1".encode(), f"steps: [{word}]".encode()]
        yield "space", [f"{word}: [1]".encode(), f"topk_ratio: [{word}]".encode()]
        yield "errors", [f"{word}: 1".encode()]
        yield "importance", [(NASTY + ",a\n").encode()]
        yield "probe", [json.dumps({"figures": [{"name": NASTY, NASTY: 1}]}).encode()]
        yield "config", [f"color: {word}".encode(), f"{word}: 1".encode()]
        yield "profile", [self.sample("profile").replace(b"source: ", b"source: " + word.encode() +
                                                         b" #", 1),
                          self.sample("profile") + f"\n{word}: 1\n".encode()]
        yield "published", [f"{word}: 1".encode()]
        yield "nsight", [lambda path: inputs.nsight(path, [
            "UPDATE StringIds SET value = char(27, 155, 8238) || 'x'"])]

    def test_contents(self):
        places = inputs.INPUTS
        for format, contents in self.nasty_files():
            for one in places:
                if one.format == format:
                    for number, content in enumerate(contents):
                        self.add_file(f"text {number}", one, content)
        self.try_all(120)

    def test_names(self):
        """Of files, and of files whose name is not UTF-8; as JSON, too, which stays JSON."""
        for one in self.of_file():
            for stem in (NASTY, "\udcff", "line\nzenflow-sim: error"):
                content = self.sample(one.format)
                self.add(f"{one.option}: file {stem!r}", one, content, stem + one.suffix)
                self.add(f"{one.option}: no file {stem!r}", self.command(one, stem, "/none"))
        for command in (("zenflow-sim", "lint", "\udcff.json", "--json"),
                        ("zenflow-sim", "explain", "--trace", "\udcff.json", "--json")):
            content = self.sample("deepspeed" if "lint" in command else "chrome")
            self.add(str(command), command, content, "\udcff.json")
        self.try_all(200)

    def test_arguments(self):
        scenario = self.samples["scenario"]
        for option in ("--set", "--profile", "--schedule", "--deepspeed-version", "--target",
                       "--config", "--color", "--" + NASTY, "--trace"):
            for value in (NASTY, NASTY + "=1", "run.steps=" + NASTY):
                self.add(option, ("zenflow-sim", "run", scenario, option, value))
        for program in ("zenflow-sim", "zenflow-tune", "zenflow-calibrate", "zenflow-validate",
                        "zenflow-train"):
            self.add(program, (program, NASTY))
            self.add(program, (program, "--" + NASTY))
        self.try_all(30)

    def test_styles(self):
        """Where output has colours, names have none: they would hide what stands behind them."""
        name = "\x1b[8m\x1b[31mx\x1b[7m"
        scenario = re.sub(rb"^name:.*$", b"", self.sample("scenario"), flags=re.M) + \
            b"\nname: " + json.dumps(name).encode() + b"\n"
        for command in ("run", "compare", "explain", "fit", "steps"):
            self.add(command, ("zenflow-sim", command, name + ".yaml", "--color", "always"),
                     scenario, name + ".yaml", codes=(0,), styled=True)
        self.add("tune", ("zenflow-tune", name + ".yaml", "-q", "--color", "always", "--vary",
                          "topk_ratio=0.1"), scenario, name + ".yaml", codes=(0,), styled=True)
        self.add("trace", ("zenflow-sim", "explain", "--color", "always", "--trace", name),
                 json.dumps(inputs.chrome((name, name))).encode(), name, codes=(0,), styled=True)
        self.add("lint", ("zenflow-sim", "lint", name + ".json", "--color", "always"),
                 json.dumps({name: name}).encode(), name + ".json", codes=(1,), styled=True)
        self.add("check", ("zenflow-sim", "check", "--color", "always", *inputs.CARD,
                           "--sequence-length", "512", "--micro-batch-size", "4", "--model",
                           name + ".json"), self.sample("model"), name + ".json", codes=(0, 3),
                 styled=True)
        self.try_all(9)

    def test_written_files(self):
        """What programs write obeys nobody when it is shown; a command is what it says."""
        folder = os.path.join(self.folder, "written")
        os.mkdir(folder)
        model = "m\x1b[2J \u202e'\\\"$(touch made)`touch made`\u009b\n;z.json"
        shutil.copy(os.path.join(PROGRAMS.source, "scenarios/training/llama_10m.json"),
                    os.path.join(folder, model))
        shutil.copy(self.samples["model"], os.path.join(folder, "large" + model))
        written = []

        def scenario(name, sample, model):
            lines = [line for line in sample.decode().split("\n")
                     if not line.startswith(("name:", "model:"))]
            lines += ["name: " + json.dumps(NASTY), "model: " + json.dumps(model), ""]
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write("\n".join(lines))

        def run(command, *files):
            outcome = PROGRAMS.run(command, folder)
            self.assertEqual((outcome.code, complaints(outcome)), (0, []), outcome.err)
            written.extend(files)

        outputs = ("ds_config_optimal.json", "cmd_optimal.txt", "summary.txt", "summary.json")
        scenario("s.yaml", self.sample("scenario"), "large" + model)
        with open(inputs.HOST_SCENARIO.format(source=PROGRAMS.source), "rb") as file:
            scenario("host.yaml", file.read(), model)
        for name in ("s", "host"):
            run(("zenflow-tune", name + ".yaml", "-q", "-o", name, "--vary", "update_interval=4",
                 "--vary", "topk_ratio=0.1"), *(f"{name}/{one}" for one in outputs))
        run(("zenflow-sim", "run", "s.yaml", "-q", "--schedule", "deepspeed-zenflow", "--dot", "d.dot",
             "--trace", "t.json"), "d.dot", "t.json")
        page = PROGRAMS.run(("zenflow-sim", "run", "s.yaml", "-q", "--report", "r.html"), folder)
        if b"built without Chart.js" not in page.err:
            self.assertEqual((page.code, complaints(page)), (0, []), page.err)
            written.append("r.html")
        run(("zenflow-calibrate", "fit", "t.json", "-q", "--scenario", "s.yaml", "-o", "p.yaml"),
            "p.yaml")
        for name in written:
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            with self.subTest(file=name):
                self.assertIsNone(CONTROL.search(content))
                if name.endswith(".json"):
                    json.loads(content)
        argument = subprocess.run(
            ["bash", "-c", "zenflow-train() { printf '%s' \"$2\"; }; . host/cmd_optimal.txt"],
            cwd=folder, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(os.path.normpath(os.path.join("host", argument)), model)
        self.assertFalse(os.path.exists(os.path.join(folder, "made")))
        refused = PROGRAMS.run(("zenflow-tune", "s.yaml", "--train-command", "train.py " + NASTY),
                               folder)
        self.assertEqual((refused.code, complaints(refused)), (2, []))

    def test_json_stays_json(self):
        path = os.path.join(self.samples_folder, "named.yaml")
        with open(path, "wb") as file:
            text = re.sub(rb"^name:.*$", b"", self.sample("scenario"), flags=re.M)
            file.write(text + b"\nname: " + json.dumps(NASTY).encode() + b"\n")
        for command in ("run", "explain", "fit", "steps"):
            outcome = PROGRAMS.run(("zenflow-sim", command, path, "--json", "-q"), self.folder)
            self.assertEqual(json.loads(outcome.out)["scenario"], NASTY)
            self.assertEqual(complaints(outcome), [])


class Signals(Kind):
    def test_ctrl_c_ends_every_loop(self):
        """Each of these would take minutes; none is at its end within the second it gets."""
        bomb = os.path.join(self.folder, "bomb.json.gz")
        Bombs.write_bomb(self, bomb, b'{"traceEvents":[', b" ", 65536, b"]}")
        line = os.path.join(self.folder, "line.gz")
        Bombs.write_bomb(self, line, b"x", b"x", 65536)
        text = os.path.join(self.folder, "string.gz")
        Bombs.write_bomb(self, text, b'{"traceEvents":[{"name":"', b"a", 65536)
        scenario = self.samples["scenario"]
        unbounded = ("--set", "run.max_tasks=2000000000")
        commands = [("zenflow-sim", "explain", "--trace", path) for path in (bomb, line, text)]
        commands += [("zenflow-calibrate", "fit", bomb, "--scenario", scenario),
                     ("zenflow-validate", scenario, "--trace", bomb, "--schedule", "zenflow"),
                     ("zenflow-tune", "--trace", bomb, "--model", self.samples["model"], "--base",
                      self.samples["deepspeed"]),
                     ("zenflow-sim", "sweep", scenario, "--vary", "topk_ratio=0.1:0.9:0.00001"),
                     ("zenflow-tune", scenario, "-q", "--max-points", "1000000000000", "--vary",
                      "update_interval=1:15000:1")]
        for command in ("run", "explain", "fit", "compare"):
            commands.append(("zenflow-sim", command, scenario, *unbounded, "--set",
                             "deepspeed.gradient_accumulation_steps=20000", "--set",
                             "training.gradient_accumulation_steps=20000"))
        # Starts for a second, in which its memory is filled; each of its steps takes two.
        large = os.path.join(self.folder, "large.json")
        with open(large, "w", encoding="ascii") as file:
            json.dump(dict(json.loads(self.sample("tiny")), n_layer=4096, n_embd=16), file)
        commands.append(("zenflow-train", "--model", large, "--data",
                         inputs.TEXT.format(source=PROGRAMS.source), "--steps", "1000",
                         "--sequence-length", "8", "-q"))
        for command in commands:
            with self.subTest(command=command[:3]):
                outcome = PROGRAMS.run(command, self.folder, interrupt_after_cpu=0.3)
                self.assertEqual(outcome.code, 130, outcome.err)
                # A second on a quiet machine.
                self.assertLess(outcome.seconds_to_stop, 20)

    def test_standard_input_that_says_nothing(self):
        reading, writing = os.pipe()
        with subprocess.Popen([os.path.join(PROGRAMS.tools, "zenflow-sim"), "lint", "-"],
                              stdin=reading, stderr=subprocess.PIPE) as process:
            time.sleep(0.3)
            while process.poll() is None:
                process.send_signal(2)
                time.sleep(0.5)
            self.assertIn(process.returncode, (130, -2))  # -2: before it could catch it
        os.close(reading)
        os.close(writing)


class FullDisk(Kind):
    def test_nothing_is_left(self):
        scenario = self.samples["scenario"]
        with open("/dev/full", "wb") as full:
            for command in (("zenflow-sim", "run", scenario), ("zenflow-sim", "list"),
                            ("zenflow-sim", "explain", scenario), ("zenflow-sim", "fit", scenario),
                            ("zenflow-sim", "lint", self.samples["deepspeed"]),
                            ("zenflow-tune", scenario, "-q", "--vary", "update_interval=4"),
                            ("zenflow-calibrate", "doctor")):
                self.add("full output", command, stdout=full, codes=(1,), says=b"cannot write")
            for option, name in (("--trace", "t.json"), ("--trace", "t.json.gz"), ("--dot", "t.dot")):
                self.add(f"{option} {name}", ("zenflow-sim", "run", scenario, "--schedule",
                                              "deepspeed-zenflow", option, name),
                         largest_file=4096, codes=(1,), says=b"cannot write")
            self.add("-o made", ("zenflow-tune", scenario, "-q", "--vary", "update_interval=4", "-o", "made"),
                     largest_file=64, codes=(1, 2))
            for name in ("/dev/full", "/dev/null", "/dev/zero"):
                self.add(name, ("zenflow-sim", "run", scenario, "--schedule", "gpu-only", "-f",
                                "--trace", name), codes=(2,), says=b"not a regular file")
            self.try_all(14)


def main():
    global PROGRAMS
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAMS = Programs(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)


if __name__ == "__main__":
    main()
