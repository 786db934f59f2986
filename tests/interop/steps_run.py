"""Starts the ranks of one measured training and reads their memory. Used by steps.py."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from schedule import Failed, free_port

SAMPLE_EVERY = 0.02
PROC = pathlib.Path("/proc")


def processes_of(pid):
    """`pid` and all that it started: ZenFlow's worker is a process of its own."""
    found = [pid]
    for one in found:
        for children in PROC.glob(f"{one}/task/*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                pass
    return found


def resident(pid):
    """{kind: bytes} of a process and its children: proportional set size, and its parts."""
    sums = {"Pss": 0, "Pss_Anon": 0, "Pss_File": 0, "Pss_Shmem": 0}
    for one in processes_of(pid):
        try:
            lines = (PROC / str(one) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0]) * 1024
    return sums


def shared_memory_used():
    stat = os.statvfs("/dev/shm")
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


class MemorySampler(threading.Thread):
    """Peaks of the ranks' memory, summed over ranks at each instant."""

    def __init__(self, ranks):
        super().__init__(daemon=True)
        self.ranks = ranks
        self.peak = {}
        self.shared_memory = 0
        self.running = True

    def run(self):
        while self.running:
            readings = [resident(one.pid) for one in self.ranks]
            now = {kind: sum(one[kind] for one in readings) for kind in readings[0]}
            if now["Pss"] > self.peak.get("Pss", 0):
                self.peak = now
            self.shared_memory = max(self.shared_memory, shared_memory_used())
            time.sleep(SAMPLE_EVERY)


def until(rank, word):
    for line in rank.stdout:
        if line.strip() == word:
            return
    rank.wait()
    tail = "\n".join(pathlib.Path(rank.log).read_text(errors="replace").splitlines()[-12:])
    raise Failed(f"a rank ended before {word}\n{tail}")


def train(settings, ranks, folder):
    """The slowest rank's phase times of each step, peaks of memory in bytes, and what was probed.
    """
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    before = shared_memory_used()
    port = str(free_port())
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "WORLD_SIZE": str(ranks), "LOCAL_SIZE": str(ranks)}
    started = []
    try:
        for rank in range(ranks):
            log = folder / f"rank{rank}.log"
            with open(log, "w", encoding="utf-8") as errors:
                started.append(subprocess.Popen(
                    [sys.executable, "-W", "ignore",
                     str(pathlib.Path(__file__).with_name("steps_rank.py")), str(file),
                     str(folder / f"rank{rank}.json")],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                    env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
            started[-1].log = log
        for one in started:
            until(one, "MEMORY")
        sampler = MemorySampler(started)
        sampler.start()
        for one in started:
            until(one, "DONE")
        sampler.running = False
        sampler.join()
    finally:
        for one in started:
            for process in reversed(processes_of(one.pid)):
                try:
                    os.kill(process, 9)
                except ProcessLookupError:
                    pass
            one.wait()
        # DeepSpeed's all-reduce through shared memory leaves 66 MiB a rank there.
        for file in pathlib.Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_{port}_*"):
            file.unlink()
    results = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]
    # Ranks wait for each other, so a step ends with the slowest.
    steps = {clock: [max((one[clock] for one in step), key=sum)
                     for step in zip(*(one["steps"] for one in results))]
             for clock in results[0]["steps"][0]}
    return {"steps": steps, "memory": sampler.peak,
            "shared_memory": max(0, sampler.shared_memory - before),
            "parameters": results[0]["parameters"], "probe": results[0].get("probe")}
