"""Results as plain records. Times are milliseconds, memory is bytes; `document` is all that the program says."""

import dataclasses
import html
import typing
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Type


class Table:
    """What a result shows as a table: `rows()`, one dictionary a row."""

    def rows(self) -> List[Dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """`rows()` as a pandas.DataFrame; pandas has to be installed."""
        import pandas  # type: ignore[import-untyped, unused-ignore]
        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))

        def line(tag: str, cells: List[Any]) -> str:
            texts = ("%.1f" % cell if isinstance(cell, float) else str(cell) for cell in cells)
            return "<tr>" + "".join("<%s>%s</%s>" % (tag, html.escape(text), tag) for text in texts) + "</tr>"

        body = "".join(line("td", [row.get(name, "") for name in names]) for row in rows)
        return "<table>" + line("th", names) + body + "</table>"


@dataclass
class Finding:
    """What DeepSpeed will refuse, ignore or do unexpectedly."""
    code: str  #: of the rule: "ZF079"
    severity: str  #: "error", "warning" or "note"
    path: str = ""  #: of the key
    what: str = ""
    instead: str = ""  #: what to write
    at: str = ""  #: "ds_config.json:8:37"


@dataclass
class Change:
    """One change that would help."""
    what: str
    set: List[str]  #: as --set and the argument `set` take it
    step_time_ms: float
    tokens_per_second: float
    gain: Optional[float] = None  #: tokens a second, as a multiple; None if the job does not fit without it
    but: str = ""  #: what it costs


@dataclass
class Fact:
    """What was assumed of the job, and who says so."""
    path: str
    value: str
    source: str
    estimated: bool


@dataclass
class Check(Table):
    """Of zenflow.check."""
    scenario: str
    verdict: str  #: "fits", "uncertain" or "does_not_fit"
    decided_by: str  #: the limit that decides it
    schedule: str
    step_time_ms: float
    step_time_range_ms: Tuple[float, float]  #: on a host half and twice as fast, where it is an estimate
    gradient_accumulation_steps: int
    optimizer_step_time_ms: float
    tokens_per_second: float
    gpu_compute_ms: float
    stall_by_cause_ms: Dict[str, float]
    bound: str  #: what the step's time is spent on, in words
    memory: Dict[str, float]  #: gpu_peak_bytes, host_peak_bytes
    findings: List[Finding]
    changes: List[Change]
    facts: List[Fact]
    #: of a job that nothing tried makes fit, what comes nearest: "what", "set", "exceeded"
    nearest: Optional[Dict[str, Any]] = None
    notes: List[str] = field(default_factory=list)
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def fits(self) -> bool:
        """Whether every limit holds, be it closely."""
        return self.verdict != "does_not_fit"

    def rows(self) -> List[Dict[str, Any]]:
        """The job, and each change that would help."""
        now = {"what": self.scenario, "verdict": self.verdict, "step_time_ms": self.step_time_ms,
               "tokens_per_second": self.tokens_per_second}
        return [now] + [{"what": change.what, "step_time_ms": change.step_time_ms,
                         "tokens_per_second": change.tokens_per_second, "set": " ".join(change.set)}
                        for change in self.changes]


@dataclass
class Pcie:
    """Bytes over one GPU's link to the host, in a step."""
    d2h_bytes_per_step: int
    h2d_bytes_per_step: int
    model_sizes_per_step: float  #: both ways, all GPUs, divided by the model in bf16


@dataclass
class Staleness:
    """Steps from a gradient to the weights that it changes."""
    min: int
    max: int


@dataclass
class Memory:
    """At the peak, in bytes."""
    fits: bool
    gpu_peak_bytes: int
    gpu_capacity_bytes: int
    host_peak_bytes: int
    host_capacity_bytes: int
    gpu: Dict[str, int]  #: by what it holds
    host: Dict[str, int]


@dataclass
class ScheduleResult:
    """One schedule, per step, averaged over whole update windows."""
    schedule: str
    step_time_ms: float
    step_times_ms: List[float]  #: of the steps of a window
    gpu_compute_ms: float
    gpu_stall_ms: float
    gpu_utilization: float
    stall_by_cause_ms: Dict[str, float]
    pcie: Pcie
    tokens_per_second: float
    mfu: float
    staleness_steps: Staleness
    memory: Memory
    critical_path_ms: float
    tasks: int
    topk_ratio: Optional[float] = None
    update_interval: Optional[int] = None


@dataclass
class Simulation(Table):
    """Of zenflow.simulate."""
    scenario: str
    model: Dict[str, Any]
    hardware: Dict[str, Any]
    results: List[ScheduleResult]
    warnings: List[str] = field(default_factory=list)
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, schedule: str) -> ScheduleResult:
        """The result of a schedule, by its name."""
        for result in self.results:
            if result.schedule == schedule:
                return result
        raise KeyError(schedule)

    def rows(self) -> List[Dict[str, Any]]:
        """One row a schedule."""
        return [{"schedule": one.schedule, "step_time_ms": one.step_time_ms, "gpu_compute_ms": one.gpu_compute_ms,
                 "gpu_stall_ms": one.gpu_stall_ms, "tokens_per_second": one.tokens_per_second, "mfu": one.mfu,
                 "model_sizes_per_step": one.pcie.model_sizes_per_step, "staleness_max": one.staleness_steps.max,
                 "gpu_peak_bytes": one.memory.gpu_peak_bytes, "host_peak_bytes": one.memory.host_peak_bytes,
                 "fits": one.memory.fits} for one in self.results]


@dataclass
class TunedResult:
    """What a setting takes, per optimizer step."""
    step_time_ms: float
    gpu_compute_ms: float
    stall_by_cause_ms: Dict[str, float]
    tokens_per_second: float
    gpu_peak_bytes: float
    staleness_steps_max: int
    feasible: bool


@dataclass
class TunedSetting:
    """A value for each knob, and what it takes."""
    setting: Dict[str, Any]
    result: TunedResult


@dataclass
class Tuned(Table):
    """Of zenflow.tune."""
    scenario: str
    schedule: str
    objective: str
    chosen: TunedSetting
    fastest: TunedSetting
    baseline: TunedSetting  #: the job as it is
    changes: List[str]  #: to the DeepSpeed file
    command: str  #: that launches it
    top: List[TunedSetting]
    speedup: Optional[float] = None  #: of the chosen one over the baseline
    config: Optional[Dict[str, Any]] = None  #: the DeepSpeed configuration; None if it is not to be relied on
    warnings: List[str] = field(default_factory=list)
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    def rows(self) -> List[Dict[str, Any]]:
        """The job as it is, what was chosen, the fastest and the best others."""
        named = [("yours", self.baseline), ("chosen", self.chosen), ("fastest", self.fastest)]
        named += [("", one) for one in self.top]
        return [{"which": name, **one.setting, "step_time_ms": one.result.step_time_ms,
                 "tokens_per_second": one.result.tokens_per_second, "gpu_peak_bytes": one.result.gpu_peak_bytes}
                for name, one in named]


@dataclass
class Lint(Table):
    """Of zenflow.lint."""
    findings: List[Finding]
    errors: int
    warnings: int
    notes: int
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    def rows(self) -> List[Dict[str, Any]]:
        """One row a finding."""
        return [dataclasses.asdict(finding) for finding in self.findings]


@dataclass
class Trace(Table):
    """A recorded run, of zenflow.read_trace. `document` has all of it: docs/traces.md."""
    trace: str
    format: str
    events: int
    spans_kept: int
    extent_ms: float
    steps: Dict[str, Any]  #: source, count, mean_ms, and each step
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    def rows(self) -> List[Dict[str, Any]]:
        """One row a step."""
        return list(self.steps.get("each", []))


Result = typing.TypeVar("Result")


def decoded(kind: Type[Result], value: Dict[str, Any]) -> Result:
    """A JSON object as a dataclass. Keys that it does not name are left out."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _as_type(hint, value[name]) for name, hint in hints.items() if name in value})


def _as_type(kind: Any, value: Any) -> Any:
    """A JSON value as the type of a dataclass's field."""
    if dataclasses.is_dataclass(kind):
        return decoded(typing.cast(type, kind), value)
    origin = typing.get_origin(kind)
    if origin is list:
        return [_as_type(typing.get_args(kind)[0], item) for item in value]
    if origin is tuple:
        return tuple(value)
    return value
