"""From a measured and recorded run to what would be faster."""

import importlib.metadata
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from zenflow._calls import Error, Infeasible, InputError
from zenflow._functions import check, read_trace, simulate, tune
from zenflow._results import Trace, Tuned
from zenflow.integrations import _host, _interval
from zenflow.integrations._job import Job, version_of, write_json

Hardware = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]

#: Of these ZenFlow's update_interval may be changed to one while the engine runs.
INTERVALS = (1, 2, 4, 8, 16, 32)
#: Changes of less than this are not worth it.
LEAST_GAIN = 1.02
#: zenflow-tune's own limit, unless `tune` says another one.
MAX_STALENESS = 7


@dataclass
class Measured:
    """Steps without the profiler, by wall clock, in ms."""
    step_ms: float  #: mean of a step; of several windows the median one's
    steps_ms: List[float]
    window: int  #: steps of a window
    phases_ms: Optional[Dict[str, float]] = None  #: means of forward, backward and step()


@dataclass
class Node:
    """The hardware, as zenflow.check takes it."""
    arguments: Dict[str, Any]
    what: str
    fitted: Dict[str, float] = field(default_factory=dict)  #: constants that the recorded run itself has said
    explains: bool = True  #: whether they explain its step within 5 %


@dataclass
class Advice:
    """What was measured and predicted of a run, and what would be faster. Times are ms, of one step."""
    measured: Measured
    predicted_ms: float
    tokens: int  #: of a step of all ranks
    node: Node
    job: Job
    simulated: Dict[str, Any]  #: arguments of zenflow.simulate for this run
    trace: Optional[Trace] = None
    tuned: Optional[Tuned] = None
    gain: Optional[float] = None  #: tokens a second of the tuned setting, as a multiple
    before: Optional[Dict[str, float]] = None  #: an earlier run's predicted gain, and the measured one
    decisions: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    def numbers(self) -> Dict[str, float]:
        """What is logged."""
        found = {"measured_step_ms": self.measured.step_ms, "predicted_step_ms": self.predicted_ms}
        if self.gain is not None:
            found["predicted_gain"] = self.gain
        if self.before is not None:
            found["earlier_predicted_gain"] = self.before["predicted_gain"]
            found["earlier_measured_gain"] = self.before["measured_gain"]
        return found

    def lines(self) -> List[str]:
        """The same in words."""
        said = ["a step takes %.1f ms, predicted are %.1f ms%s" % (
            self.measured.step_ms, self.predicted_ms,
            " (on constants fitted to this run)" if self.node.fitted else "")]
        if self.tuned is not None and self.gain is not None:
            said.append("tuned: %.2f times as many tokens a second are predicted" % self.gain)
        if self.before is not None:
            said.append("against the earlier run: %.2f times as many were predicted, %.2f are measured" % (
                self.before["predicted_gain"], self.before["measured_gain"]))
        return said


def advise(job: Job, measured: Measured, folder: str, *, trace: str, module: Any, hardware: Hardware,
           tune: Mapping[str, Any], before: Optional[str], target: str) -> Advice:
    """Reads the recording, predicts the run and tunes it; `folder` gets the files. Raises zenflow.Error."""
    release = version_of("deepspeed") if job.ds is not None else None
    common: Dict[str, Any] = dict(job.arguments)
    if job.ds is not None:
        common["ds"] = write_json(os.path.join(folder, "ds_config.json"), job.ds)
        common["target"] = target
    threads = os.environ.get("OMP_NUM_THREADS")
    settings = {"launch.omp_num_threads": int(threads)} if threads and threads.isdigit() else {}
    notes: List[str] = []
    if release is not None:
        common["deepspeed_version"] = _known_release(release, common, notes)
    node = find_node(hardware, job, measured, module, folder, {**common, "set": settings})
    simulated = {**common, **node.arguments, "set": settings}
    checked = check(**simulated)
    tokens = (job.arguments["sequence_length"] * job.arguments["micro_batch_size"] * job.ranks
              * job.arguments["gradient_accumulation_steps"])
    advice = Advice(measured, checked.optimizer_step_time_ms, tokens, node, job, simulated, notes=notes)
    advice.trace = read_trace(trace)
    _tune(advice, trace, folder, dict(tune))
    if before is not None:
        advice.before = _against(before, advice)
    return advice


def find_node(hardware: Hardware, job: Job, measured: Measured, module: Any, folder: str,
              simulated: Mapping[str, Any]) -> Node:
    """What the user says, else the card that PyTorch reports, else this host's cores."""
    if isinstance(hardware, Mapping):
        return Node(dict(hardware), "hardware=")
    if hardware is not None:
        name = os.fspath(hardware)
        file = name if os.path.exists(name) else _shipped_profile(name)
        return Node({"host": file}, "profile " + name) if file else Node({"gpu": name}, "card " + name)
    import torch
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        return Node({"gpu": name, "host": "this"}, "card %s, as PyTorch says, in this host" % name)
    file = os.path.join(folder, "profile.yaml")
    tokens = job.arguments["micro_batch_size"] * job.arguments["sequence_length"]
    profile = _host.profile_of(_host.measure(module, tokens, job.arguments["dtype"]), job.ranks)
    # Simulated are micro steps.
    micro_steps = job.arguments["gradient_accumulation_steps"]
    phases = measured.phases_ms and {name: value / micro_steps for name, value in measured.phases_ms.items()}
    fitted, explains = _host.fit(profile, file, simulated, phases, measured.step_ms / micro_steps)
    return Node({"host": file}, "this host's cores: PyTorch reports no GPU", fitted, explains)


def best_interval(advice: Advice, engine: Any, release: str, tune: Mapping[str, Any]) -> Tuple[Optional[int], str]:
    """The interval that is predicted to be fastest among those that this engine can change to, and why; or None, and
    why not."""
    refused = _interval.refusal(engine, release, getattr(engine, "update_interval", 1) or 1)
    if refused:
        return None, "stays: " + refused
    now = engine.update_interval
    limit = int(tune.get("max_staleness", MAX_STALENESS))
    times: Dict[int, float] = {}
    for interval in sorted({now, *INTERVALS}):
        if interval != now and _interval.refusal(engine, release, interval):
            continue
        settings = {**advice.simulated["set"], "update_interval": interval}
        result = simulate(**{**advice.simulated, "set": settings}).results[0]
        if interval == now or result.staleness_steps.max <= limit:
            times[interval] = result.step_time_ms
    best = min(times, key=lambda one: (times[one], one))
    predicted = ", ".join("%d: %.1f ms" % one for one in sorted(times.items()))
    if times[now] / times[best] < LEAST_GAIN:
        return None, "stays %d: no other one is predicted to be 2 %% faster (%s)" % (now, predicted)
    return best, "%d in place of %d: a step is predicted to take %.1f ms in place of %.1f ms (%s)" % (
        best, now, times[best], times[now], predicted)


def _known_release(release: str, job: Mapping[str, Any], notes: List[str]) -> Optional[str]:
    """The installed release, if it is one that is known; else None, which is the newest known."""
    from zenflow._functions import lint
    release = release.split("+")[0]
    try:
        lint(job["ds"], deepspeed_version=release)
        return release
    except InputError as error:
        if "deepspeed-version" not in str(error):
            raise
        notes.append("DeepSpeed %s is not known: taken for the newest release that is" % release)
        return None


def _shipped_profile(name: str) -> Optional[str]:
    try:
        files = importlib.metadata.files("zenflow-sim") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.parts[-3:] == ("zenflow-sim", "profiles", name + ".yaml"):
            return os.path.normpath(str(file.locate()))
    return None


def _tune(advice: Advice, trace: str, folder: str, options: Dict[str, Any]) -> None:
    """What would be faster: by the recording's own numbers where work of GPUs is in it, else by the profile's."""
    assert advice.trace is not None
    output = os.path.join(folder, "tuned")
    study = os.path.join(output, "study.sqlite")
    if os.path.exists(study):  # of an earlier run, which measured something else
        os.remove(study)
    measured = "%.6f ms" % advice.measured.step_ms
    settings = {**advice.simulated["set"], **options.pop("set", {})}
    common = {**options, "output": output, "measured_step": measured}
    if advice.trace.document.get("devices"):
        try:
            advice.tuned = tune(**_traced(advice, trace, settings), **common)
        except InputError as error:
            advice.notes.append("the recording alone does not tell enough (%s): tuned by the profile" % error)
    if advice.tuned is None:
        try:
            advice.tuned = tune(**{**advice.simulated, "set": settings}, **common)
        except Infeasible as error:
            advice.notes.append("nothing to propose: %s" % error)
            return
    chosen, now = advice.tuned.chosen.result, advice.tuned.baseline.result
    advice.gain = chosen.tokens_per_second / now.tokens_per_second
    if advice.tuned.config is None:
        advice.gain = None
        advice.notes.append("the prediction is off by more than a factor of two of what was measured: it is not to be "
                            "relied on, and no DeepSpeed file is written")


def _traced(advice: Advice, trace: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    job = advice.job.arguments
    more = {"training.activation_checkpointing": bool(job["activation_checkpointing"]),
            "training.micro_batch_size_per_gpu": job["micro_batch_size"]}
    traced = {"trace": [trace], "model": job["model"], "base": advice.simulated.get("ds"), "gpus": job["gpus"],
              "sequence_length": job["sequence_length"], "set": {**more, **settings},
              "target": advice.simulated.get("target"), "deepspeed_version": advice.simulated.get("deepspeed_version")}
    host = advice.node.arguments.get("host")
    if host is not None and host != "this":
        traced["profile"] = host
    return traced


def _against(folder: str, advice: Advice) -> Dict[str, float]:
    """What an earlier run predicted of the setting that it wrote, and what has come of it."""
    file = os.path.join(folder, "report.json")
    try:
        with open(file, encoding="utf-8") as text:
            earlier = json.load(text)
        predicted, tokens, step = earlier["predicted_gain"], earlier["tokens"], earlier["measured_step_ms"]
    except (OSError, ValueError, KeyError) as error:
        raise Error("before: %s has no report of an earlier run: %s" % (folder, error), 2) from error
    if predicted is None:
        raise Error("before: %s has predicted no gain" % file, 2)
    return {"predicted_gain": float(predicted),
            "measured_gain": (advice.tokens / advice.measured.step_ms) / (tokens / step)}
