"""Every place where a program reads a file: what a new option or format has to be listed in.

`robustness_test.py` holds the programs' help against the lists: an option that is in neither is an
error, so nothing that reads a file is left out.
"""
import dataclasses
import gzip
import json
import os
import sqlite3
import struct
import zlib


@dataclasses.dataclass(frozen=True)
class Input:
    """A command with the place FILE, what a valid file there has, and its name's ending."""
    option: str  # "PROGRAM COMMAND OPTION", as the help has them
    command: tuple
    format: str
    suffix: str


SCENARIO = "{source}/scenarios/qwen2_5_1_5b_2xa100_40g.yaml"
HOST_SCENARIO = "{source}/scenarios/llama_10m_this_host.yaml"
MODEL = "{source}/scenarios/models/qwen2_5_1_5b.json"
BASE = "{source}/scenarios/ds/zenflow_k10_s4.json"
TINY = "{source}/scenarios/training/gpt2_3m.json"
TEXT = "{source}/README.md"
FILE = "FILE"
TRAIN = ("zenflow-train", "--model", TINY, "--data", TEXT, "--steps", "1", "--sequence-length", "8",
         "-q")

# What no trace of the samples says.
OF_TRACE = ("--profile", "dgx_a100_40g", "--sequence-length", "512")

CHECK = ("zenflow-sim", "check", "-q", "--sequence-length", "512", "--micro-batch-size", "4")
TUNE = ("zenflow-tune", "-q", "--sequence-length", "512", "--micro-batch-size", "4", "--vary",
        "update_interval=4", "--vary", "topk_ratio=0.1")
CARD = ("--gpu", "A100-SXM4-80GB", "--gpus", "2")

INPUTS = (
    *(Input(f"zenflow-sim {c} scenario", ("zenflow-sim", c, FILE), "scenario", ".yaml")
      for c in ("run", "compare", "explain", "fit", "steps")),
    Input("zenflow-sim sweep scenario",
          ("zenflow-sim", "sweep", FILE, "--vary", "topk_ratio=0.1,0.2"), "scenario", ".yaml"),
    Input("zenflow-sim run --config", ("zenflow-sim", "run", SCENARIO, "--config", FILE), "config",
          ".yaml"),
    Input("zenflow-sim run --profile", ("zenflow-sim", "run", SCENARIO, "--profile", FILE),
          "profile", ".yaml"),
    Input("zenflow-sim run --set", ("zenflow-sim", "run", SCENARIO, "--set", "model=" + FILE),
          "model", ".json"),
    Input("zenflow-sim run --set", ("zenflow-sim", "run", SCENARIO, "--set", "deepspeed=" + FILE),
          "deepspeed", ".json"),
    Input("zenflow-sim list topic", ("zenflow-sim", "list", FILE), "profile", ".yaml"),
    Input("zenflow-sim list topic", ("zenflow-sim", "list", FILE), "weights", ".safetensors"),
    Input("zenflow-sim lint config", ("zenflow-sim", "lint", FILE), "deepspeed", ".json"),
    Input("zenflow-sim lint --model",
          ("zenflow-sim", "lint", "{samples}/deepspeed.json", "--model", FILE), "model", ".json"),
    Input("zenflow-sim check --ds", CHECK + CARD + ("--model", MODEL, "--ds", FILE), "deepspeed",
          ".json"),
    Input("zenflow-sim check --ds", CHECK + CARD + ("--model", MODEL, "--ds", FILE), "training",
          ".yaml"),
    Input("zenflow-sim check --model", CHECK + CARD + ("--model", FILE), "model", ".json"),
    Input("zenflow-sim check --adapter",
          CHECK + CARD + ("--model", MODEL, "--adapter", FILE), "adapter", ".json"),
    Input("zenflow-sim check --host", CHECK + ("--model", MODEL, "--host", FILE), "profile",
          ".yaml"),
    *(Input("zenflow-sim explain --trace", ("zenflow-sim", "explain", "--trace", FILE), format,
            suffix)
      for format, suffix in (("chrome", ".json"), ("chrome_gz", ".json.gz"), ("own", ".json"),
                             ("nsight", ".sqlite"), ("log", ".log"))),
    Input("zenflow-sim explain --rules",
          ("zenflow-sim", "explain", "--trace", "{samples}/chrome.json", "--rules", FILE), "rules",
          ".yaml"),
    Input("zenflow-tune SCENARIO",
          ("zenflow-tune", FILE, "-q", "--vary", "update_interval=4", "--vary", "topk_ratio=0.1"),
          "scenario", ".yaml"),
    Input("zenflow-tune --ds", TUNE + CARD + ("--model", MODEL, "--ds", FILE), "deepspeed",
          ".json"),
    Input("zenflow-tune --adapter", TUNE + CARD + ("--model", MODEL, "--adapter", FILE), "adapter",
          ".json"),
    Input("zenflow-tune --host", TUNE + ("--model", MODEL, "--host", FILE), "profile", ".yaml"),
    Input("zenflow-tune --base", ("zenflow-tune", SCENARIO, "-q", "--vary", "update_interval=4",
                                  "--base", FILE), "deepspeed", ".json"),
    Input("zenflow-tune --search-space", ("zenflow-tune", SCENARIO, "-q", "--search-space", FILE),
          "space", ".yaml"),
    Input("zenflow-tune --importance",
          ("zenflow-tune", SCENARIO, "-q", "--vary", "update_interval=4", "--importance", FILE),
          "importance", ".csv"),
    Input("zenflow-tune --standard-errors",
          ("zenflow-tune", SCENARIO, "-q", "--vary", "update_interval=4", "--standard-errors",
           FILE), "errors", ".yaml"),
    Input("zenflow-tune --output", ("zenflow-tune", SCENARIO, "-q", "-f", "-o", "{study}", "--vary",
                                    "topk_ratio=0.1,0.2", "--vary", "update_interval=4"), "study",
          ".sqlite"),
    *(Input("zenflow-tune --trace", ("zenflow-tune", "-q", "--trace", FILE, "--model", MODEL,
                                     "--base", BASE, *OF_TRACE), format, suffix)
      for format, suffix in (("chrome", ".json"), ("own", ".json"), ("nsight", ".sqlite"),
                             ("log", ".log"))),
    Input("zenflow-tune --model", ("zenflow-tune", "-q", "--trace", "{samples}/own.json", "--model",
                                   FILE, "--base", BASE, *OF_TRACE), "model", ".json"),
    *(Input("zenflow-calibrate fit TRACE", ("zenflow-calibrate", "fit", FILE, "-q", "--scenario",
                                            SCENARIO), format, suffix)
      for format, suffix in (("chrome", ".json"), ("own", ".json"), ("nsight", ".sqlite"),
                             ("log", ".log"))),
    Input("zenflow-calibrate fit --scenario",
          ("zenflow-calibrate", "fit", "{samples}/own.json", "-q", "--scenario", FILE), "scenario",
          ".yaml"),
    Input("zenflow-calibrate fit --model",
          ("zenflow-calibrate", "fit", "{samples}/chrome.json", "-q", "--micro-batch-size", "4",
           "--sequence-length", "512", "--model", FILE), "model", ".json"),
    Input("zenflow-calibrate fit --analyze", ("zenflow-calibrate", "fit", "--analyze", FILE),
          "nsight", ".sqlite"),
    Input("zenflow-calibrate merge TRACE",
          ("zenflow-calibrate", "merge", FILE, "-q", "-f", "-o", "merged.json"), "own", ".json"),
    Input("zenflow-calibrate compare first", ("zenflow-calibrate", "compare", FILE, FILE), "probe",
          ".json"),
    Input("zenflow-validate SCENARIO",
          ("zenflow-validate", FILE, "--trace", "{samples}/own.json", "--schedule",
           "deepspeed-zenflow"), "scenario", ".yaml"),
    *(Input("zenflow-validate --trace", ("zenflow-validate", SCENARIO, "--trace", FILE,
                                         "--schedule", "deepspeed-zenflow"), format, suffix)
      for format, suffix in (("chrome", ".json"), ("own", ".json"), ("nsight", ".sqlite"),
                             ("log", ".log"))),
    Input("zenflow-validate --published", ("zenflow-validate", "--published", FILE), "published",
          ".yaml"),
    Input("zenflow-train --model", ("zenflow-train", "--model", FILE, "--data", TEXT, "--steps",
                                    "1", "--sequence-length", "8", "-q"), "tiny", ".json"),
    Input("zenflow-train --data", ("zenflow-train", "--model", TINY, "--data", FILE, "--steps", "1",
                                   "--sequence-length", "8", "-q"), "tokens", ".bin"),
    Input("zenflow-train --data", ("zenflow-train", "--model", TINY, "--data", FILE, "--steps", "1",
                                   "--sequence-length", "8", "-q"), "examples", ".safetensors"),
    Input("zenflow-train --weights", TRAIN + ("--weights", FILE), "weights", ".safetensors"),
    Input("zenflow-train --checkpoint", TRAIN + ("--resume", "--checkpoint", FILE), "folder", ""),
)

# Options that take a word, a number or a pattern, or that name what is written. Those with the
# same inputs as another command's are tried there.
OTHER = {
    "zenflow-sim": "--schedule --set --profile --deepspeed-version --target --color --config --trace "
                   "--dot --vary --format --steps --rules --count --torch-version --world-size "
                   "--cores --gpus --nodes --ram --sockets --gpu --gpu-link --network --save "
                   "--sequence-length --micro-batch-size --gradient-accumulation-steps --dtype "
                   "--omp-num-threads --fix --report --port -o,--output scenario config topic",
    "zenflow-tune": "-o,--output --schedule --set --profile --deepspeed-version --target "
                    "--gpu --nodes --ram --cores --sockets --gpu-link --network --micro-batch-size "
                    "--gradient-accumulation-steps --dtype "
                    "--sequence-length --gpus --host-memory --gpu-memory --setting --steps --rules "
                    "--vary --global-batch --objective --price --max-gpu-memory "
                    "--max-host-memory --max-shm --max-staleness --max-deferred-share "
                    "--offload-when --slack --front-within --top --measured-step --relative-error "
                    "--train-command --threads --max-points --color --report",
    "zenflow-calibrate": "-o,--output --device --nvme --date --setting --profile "
                         "--micro-batch-size --sequence-length --dtype --gpus --accumulation-steps "
                         "--set --steps --rules --buffers first second command TRACE",
    "zenflow-validate": "--live --device --calibrate --predict --data --link-bandwidth --rounds "
                        "--most-rounds --setting --schedule --first-step --steps --rules "
                        "--tolerance --worst --stall-tolerance --bytes-tolerance --profile --set "
                        "--write-profile --overlay --write --name --machine --remark --date --report",
}


def chrome(names=("step", "kernel")):
    """A profiler's trace: steps, launches and kernels."""
    events = []
    for i in range(6):
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1,
                       "tid": 1, "ts": 1000 * i, "dur": 900})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,
                       "tid": 1, "ts": 1000 * i + 10, "dur": 5, "args": {"correlation": i + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": names[1], "pid": 0, "tid": 7,
                       "ts": 1000 * i + 20, "dur": 700,
                       "args": {"device": 0, "stream": 7, "correlation": i + 1}})
        events.append({"ph": "X", "cat": "user_annotation", "name": names[0], "pid": 1, "tid": 2,
                       "ts": 1000 * i, "dur": 500})
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
            "traceEvents": events, "traceName": "t"}


def nsight(path, sql=()):
    """An export with three kernels; `sql` changes it."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous=OFF")
    database.executescript("""
      CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
      INSERT INTO StringIds VALUES (1,'gemm'),(2,'cudaLaunchKernel'),(3,'step');
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, mangledName INTEGER);
      CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
        text TEXT, globalTid INTEGER, textId INTEGER);""")
    for i in range(3):
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,1,1,1,1)",
                         (1000 * i, 1000 * i + 700, i))
        database.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,1,3)", (1000 * i,
                                                                             1000 * i + 900))
    for statement in sql:
        database.execute(statement)
    database.commit()
    database.close()


def weights():
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def examples():
    """The format of runtime/data/example_sequences.h: two examples."""
    tensors = {"input_ids": ("I32", "<8i", range(1, 9)), "labels": ("I32", "<8i", range(1, 9)),
               "offsets": ("I64", "<3q", (0, 4, 8))}
    header, data = {}, b""
    for name, (kind, form, values) in tensors.items():
        stored = struct.pack(form, *values)
        header[name] = {"dtype": kind, "shape": [len(values)],
                        "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read(path):
    with open(path, "rb") as file:
        return file.read()


def token_file(tokens):
    """The format of runtime/data/token_file.h."""
    payload = b"".join(struct.pack("<H", token) for token in tokens)
    header = b"ZFTOKEN\n" + struct.pack("<IIQI", 1, 2, len(tokens), zlib.crc32(payload))
    return header + struct.pack("<I", zlib.crc32(header)) + payload


def make_samples(programs, folder):
    """Writes a valid file of every format; their paths by format."""
    source = programs.source
    scenario = read(source + "/scenarios/qwen2_5_1_5b_2xa100_40g.yaml").decode()
    for key in ("model: models/", "deepspeed: ds/"):
        scenario = scenario.replace(key, f"{key.split(':')[0]}: {source}/scenarios/" +
                                    key.split(" ")[1])
    contents = {
        "scenario.yaml": scenario.encode(),
        "config.yaml": b"color: never\n",
        "profile.yaml": read(source + "/profiles/dgx_a100_40g.yaml"),
        "model.json": read(source + "/scenarios/models/qwen2_5_1_5b.json"),
        "tiny.json": read(source + "/scenarios/training/gpt2_3m.json"),
        "deepspeed.json": read(source + "/scenarios/ds/zenflow_k10_s4.json"),
        "training.yaml": b"model_name_or_path: a/b\nstage: sft\nfinetuning_type: lora\n"
                         b"lora_rank: 16\nlora_target: q_proj,v_proj\ncutoff_len: 1024\n"
                         b"gradient_accumulation_steps: 2\nbf16: true\n",
        "adapter.json": b'{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}',
        "weights.safetensors": weights(),
        "chrome.json": json.dumps(chrome()).encode(),
        "chrome_gz.json.gz": gzip.compress(json.dumps(chrome()).encode()),
        "log.log": b"[Rank 0] time (ms) | fwd_microstep: 1.00 | bwd_microstep: 2.00 | "
                   b"step_microstep: 3.00\n" * 4,
        "rules.yaml": b'steps: ["step.*"]\nphases:\n  - {phase: forward, kernel: "ge+mm"}\n',
        "space.yaml": b"update_interval: [4, 8]\ntopk_ratio: [0.1]\n",
        "importance.csv": b"step,matrix,top_1_percent,top_5_percent,top_10_percent\n1,a,.1,.2,.3\n",
        "errors.yaml": b"host_link.h2d: 0.1\n",
        "probe.json": b'{"figures": [{"name": "a", "value": 1, "low": 1, "high": 1, "unit": "s"}]}',
        "published.yaml": read(source + "/docs/accuracy/published/rows.yaml")[:4000],
        "tokens.bin": token_file(range(256)),
        "examples.safetensors": examples(),
    }
    samples = {}
    for name, content in contents.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        samples[name.split(".")[0]] = path
    samples["nsight"] = os.path.join(folder, "nsight.sqlite")
    nsight(samples["nsight"])
    samples["own"] = os.path.join(folder, "own.json")
    outcome = programs.run(("zenflow-sim", "run", samples["scenario"], "--schedule",
                            "deepspeed-zenflow", "--trace", samples["own"]), folder)
    assert outcome.code == 0, outcome.err
    samples["study"] = os.path.join(folder, "study")
    outcome = programs.run(("zenflow-tune", samples["scenario"], "-q", "-o", samples["study"],
                            "--vary", "topk_ratio=0.1,0.2", "--vary", "update_interval=4"), folder)
    assert outcome.code == 0, outcome.err
    return samples
