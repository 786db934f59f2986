"""What is trained, and how: the grid of models, schedules and ways of measuring."""
import dataclasses
import json
import pathlib

from gpu_check.training.shapes import SHAPES

ROOT = pathlib.Path(__file__).resolve().parents[3]
REHEARSED = {"gpt2-xl": "gpt2-tiny", "llama-1.3b": "llama-tiny"}
MODES = ("timing", "breakdown", "recording")


@dataclasses.dataclass(frozen=True)
class Case:
    """`method`: plain, zero-offload or zenflow. `interval`: micro-steps between updates, which is
    ZenFlow's update_interval and ZeRO-Offload's gradient_accumulation_steps. `mode`:

      timing     micro-steps as they come, then synchronised, then under PyTorch's profiler
      breakdown  with DeepSpeed's wall_clock_breakdown
      recording  under zenflow-calibrate record
    """
    model: str
    method: str
    interval: int = 1
    topk: float = 0.0
    mode: str = "timing"
    quick: bool = False  # as little as shows that it runs

    @property
    def name(self):
        parts = [self.model, self.method]
        if self.topk:
            parts.append(f"k{round(100 * self.topk):02}")
        if self.interval > 1 or self.method == "zenflow":
            parts.append(f"s{self.interval}")
        if self.mode != "timing":
            parts.append(self.mode)
        return "-".join(parts)

    @property
    def warm_up(self):
        """Micro-steps before anything is measured: ZenFlow's warm-up rounds, and two windows in
        which its worker, and the caches of PyTorch's allocators, fall into step."""
        return 2 * self.interval if self.quick else 3 * max(self.interval, 2)

    @property
    def measured(self):
        """Whole windows: three at least, and twelve micro-steps."""
        if self.quick:
            return self.interval
        return self.interval * max(3, -(-12 // self.interval))

    @property
    def profiled(self):
        """A window's end, which is up to four micro-steps, and the first of the next."""
        return min(self.interval, 4) + 1

    @property
    def before_profiled(self):
        """Micro-steps of a window that are not profiled."""
        return self.interval - min(self.interval, 4)


def parse(text):
    """"zenflow:s4:k10:recording"; of a method and what follows it in any order."""
    method, *rest = text.split(":")
    fields = {"method": method}
    for part in rest:
        if part in MODES:
            fields["mode"] = part
        elif part[0] == "s":
            fields["interval"] = int(part[1:])
        elif part[0] == "k":
            fields["topk"] = int(part[1:]) / 100
        else:
            raise ValueError(f"{text}: \"{part}\" is neither sN, kN nor one of {', '.join(MODES)}")
    known = method in ("plain", "zero-offload", "zenflow")
    if not known or (method == "zenflow") != ("topk" in fields):
        raise ValueError(f"{text}: expected plain, zero-offload[:sN] or zenflow:sN:kN")
    return fields


def deepspeed_configuration(case):
    """The files that the simulator's scenarios use, with the case's values."""
    file = "zenflow_k10_s4" if case.method == "zenflow" else "zero2_offload"
    config = json.loads((ROOT / "scenarios" / "ds" / f"{file}.json").read_text(encoding="utf-8"))
    config["train_micro_batch_size_per_gpu"] = SHAPES[case.model].micro_batch
    config["wall_clock_breakdown"] = case.mode == "breakdown"
    if case.method == "zero-offload":
        config["gradient_accumulation_steps"] = case.interval
    if case.method == "zenflow":
        # Selection again every fourth window, so that it is among what is measured.
        config["zero_optimization"]["zenflow"].update(
            topk_ratio=case.topk, update_interval=case.interval, full_warm_up_rounds=case.interval,
            select_interval=4 * case.interval)
    return config
