"""Records a few steps of a training, holds them against what is predicted, and writes what would be faster."""

import functools
import logging
import os
import statistics
import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, TypeVar, Union, cast

from zenflow.integrations import _interval
from zenflow.integrations._advice import Advice, Hardware, Measured, advise, best_interval
from zenflow.integrations._job import find_job, version_of
from zenflow.integrations._report import write_report
from zenflow.integrations._steps import PHASES, BatchShapes, StepClock

_LOGGER = logging.getLogger("zenflow")
_FAILED = "OffloadAdvisor stops, the training goes on: %s: %s"
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _guarded(method: _Method) -> _Method:
    """What fails in the advisor ends the advisor, not the training: one warning with the reason."""

    @functools.wraps(method)
    def guarded(self: "OffloadAdvisor", *args: Any, **kwargs: Any) -> Any:
        if self._stage == "off":
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # whatever it is, the training goes on
            self._turn_off()
            if self.strict:
                raise
            _LOGGER.warning(_FAILED, type(error).__name__, error)
            return None

    return cast(_Method, guarded)


class OffloadAdvisor:
    """A callback of transformers' Trainer (`callbacks=[OffloadAdvisor("advice")]`), or `watch` around an engine.

    After `warmup` steps it measures `measure` steps by wall clock, then records `record` steps with PyTorch's profiler,
    on rank 0. ZenFlow's windows are measured and recorded whole, after its warm-up. Then it says what was measured and
    predicted, logs both where the run logs to, and writes into `output`: `tuned/ds_config_optimal.json`, `report.md`,
    `report.json` and `trace.json.gz`. A step is an optimizer step, under ZenFlow a call of step().

    hardware: a card ("RTX 4090"), a profile's name or file, or arguments of zenflow.check ({"gpu": ..., "ram": ...});
    else the card that PyTorch reports in this host, else this host's cores. model, sequence_length (tokens): where they
    cannot be seen. tune: options of zenflow.tune ({"vary": [...], "max_staleness": 7}). before: the `output` of an
    earlier run, whose predicted gain this run's step time is held against. change_update_interval: ZenFlow's interval
    may be changed once while the engine runs, at a window's boundary. log: called with numbers and step, besides the
    run's own logging. strict: what fails raises; otherwise it is a warning, once, and the training goes on.
    """

    def __init__(self, output: Union[str, "os.PathLike[str]"] = "advice", *, hardware: Hardware = None,
                 model: Optional[str] = None, sequence_length: Optional[int] = None, warmup: int = 5,
                 measure: int = 10, record: int = 3, tune: Optional[Mapping[str, Any]] = None,
                 before: Optional[Union[str, "os.PathLike[str]"]] = None, change_update_interval: bool = False,
                 log: Optional[Callable[[Dict[str, float], int], None]] = None, strict: bool = False):
        if warmup < 0 or measure < 1 or record < 1:
            raise ValueError("OffloadAdvisor: warmup has to be at least 0, measure and record at least 1")
        self.output = os.fspath(output)
        self.hardware = hardware
        self.model = model
        self.sequence_length = sequence_length
        self.warmup, self.measure, self.record = warmup, measure, record
        self.tune = dict(tune or {})
        self.before = None if before is None else os.fspath(before)
        self.change_update_interval = change_update_interval
        self.log = log
        self.strict = strict
        self.advice: Optional[Advice] = None  #: once it is there, on rank 0
        self._stage = "idle"
        self._engine: Any = None
        self._module: Any = None
        self._arguments: Any = None
        self._trainer: Any = None
        self._clock: Optional[StepClock] = None
        self._shapes: Optional[BatchShapes] = None
        self._profiler: Any = None
        self._steps = 0
        self._left = 0
        self._window = 1
        self._times: List[float] = []
        self._ended = 0.0
        self._phases: List[Optional[Dict[str, float]]] = []
        self._interval: Optional[int] = None  # that all ranks are to change to
        self._failed = False

    def __new__(cls, *_: Any, **__: Any) -> "OffloadAdvisor":
        """Of transformers' class, too, in a script that uses it: a Trainer may call events of newer releases."""
        transformers = sys.modules.get("transformers")
        if transformers is not None and not issubclass(cls, transformers.TrainerCallback):
            cls = type(cls.__name__, (cls, transformers.TrainerCallback), {"__module__": cls.__module__})
        return object.__new__(cls)

    def __getattr__(self, name: str) -> Any:
        """Events of a Trainer that this does not need, where transformers came later than the advisor."""
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    # transformers

    @_guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """The Trainer's event."""
        self._trainer = _trainer_above()
        if self._trainer is None:
            _LOGGER.warning("OffloadAdvisor: who calls is no Trainer of transformers: numbers are not logged with the "
                            "run's")
        wrapped = getattr(self._trainer, "model_wrapped", None)
        self._arguments = args
        self._begin(model, wrapped if hasattr(wrapped, "zero_optimization_stage") else None)

    @_guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer's event: an optimizer step."""
        if self._clock is None:
            self._step_ended()
        if self._stage == "analyse":
            # Logging now must not take the place of what the Trainer logs, evaluates and saves after this step.
            wanted = {name: value for name, value in vars(control).items() if name.startswith("should_")}
            self._analyse()
            for name, value in wanted.items():
                setattr(control, name, value)

    @_guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer's event."""
        self._end()

    # DeepSpeed alone

    @contextmanager
    def watch(self, engine: Any) -> Iterator["OffloadAdvisor"]:
        """While this context lasts, the engine's steps are watched; afterwards it is as it was."""
        self._watch(engine)
        try:
            yield self
        finally:
            self._end_of_watch()

    @_guarded
    def _watch(self, engine: Any) -> None:
        self._begin(engine.module, engine)

    @_guarded
    def _end_of_watch(self) -> None:
        self._end()

    # Stages: warmup, measure, record, analyse, done; and once more warmup, measure, done after a change. Ranks go
    # through them alike, also where one has failed, since a change of the interval is for all of them.

    def _begin(self, module: Any, engine: Any) -> None:
        self._module, self._engine = module, engine
        self._shapes = BatchShapes(module)
        if engine is not None:
            self._clock = StepClock(engine, self._engine_stepped)
        if getattr(engine, "zenflow", False) and not engine.auto_update:
            self._window = engine.update_interval
            self.warmup = max(self.warmup, engine.full_warm_up_rounds + self._window)
        self._enter("warmup", self._whole(self.warmup))

    def _end(self) -> None:
        if self._stage in ("warmup", "measure", "record") and self._interval is None:
            needed = 1 + sum(self._whole(one) for one in (self.warmup, self.measure, self.record))
            _LOGGER.warning("OffloadAdvisor: the training ended after %d steps, %d are needed: no advice", self._steps,
                            needed)
        elif self._stage == "done" and self._interval is not None:
            self._attempt(self._say_missed)
        self._turn_off()

    def _turn_off(self) -> None:
        """Engine and model are as they were."""
        self._stage = "off"
        self._drop_profiler()
        for one in (self._clock, self._shapes):
            if one is not None:
                one.close()
        self._clock, self._shapes = None, None

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """What it returns; None if it has failed, now or before, which is said once. Stages go on."""
        if self._failed:
            return None
        try:
            return work()
        except Exception as error:  # whatever it is, the training goes on
            self._failed = True
            self._drop_profiler()
            if self.strict:
                raise
            _LOGGER.warning(_FAILED, type(error).__name__, error)
            return None

    def _whole(self, steps: int) -> int:
        """In whole windows."""
        return -(-steps // self._window) * self._window

    def _enter(self, stage: str, steps: int) -> None:
        self._stage, self._left = stage, steps
        self._ended = time.perf_counter()
        if steps == 0:
            self._next()

    @_guarded
    def _engine_stepped(self) -> None:
        self._step_ended()
        if self._stage == "analyse" and self._arguments is None:
            self._analyse()
        self._change_if_due()

    def _step_ended(self) -> None:
        self._steps += 1
        phases = None if self._clock is None else self._clock.take_phases()
        if self._stage == "measure":
            now = time.perf_counter()
            self._times.append(now - self._ended)
            self._phases.append(phases)
            self._ended = now
        if self._stage in ("warmup", "measure", "record"):
            if self._profiler is not None:
                self._attempt(self._profiler.step)
            self._left -= 1
            if self._left == 0:
                self._next()

    def _next(self) -> None:
        if self._stage == "warmup":
            _wait_for_gpu()
            self._enter("measure", self._whole(self.measure))
        elif self._stage == "measure":
            _wait_for_gpu()
            self._times[-1] += time.perf_counter() - self._ended
            if self._interval is None:
                self._enter("record", 1 + self._whole(self.record))  # the profiler's first step is its own
                self._attempt(self._start_profiler)
            else:
                self._attempt(self._report_change)
                self._turn_off()
        else:
            self._stage = "analyse"
            self._attempt(self._stop_profiler)

    def _start_profiler(self) -> None:
        if _rank() == 0:
            os.makedirs(self.output, exist_ok=True)
            self._profiler = _profiler(self._left - 1, self._trace())
            self._profiler.start()

    def _stop_profiler(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()

    def _drop_profiler(self) -> None:
        """Without what it has recorded; why it is dropped is said elsewhere."""
        try:
            self._stop_profiler()
        except Exception as error:
            _LOGGER.debug("OffloadAdvisor: profiler: %s", error)

    def _trace(self) -> str:
        return os.path.join(self.output, "trace.json.gz")

    def _measured(self) -> Measured:
        """Means of a step, in ms, in the window whose mean is the median one."""
        firsts = sorted(range(0, len(self._times), self._window),
                        key=lambda first: sum(self._times[first:first + self._window]))
        first = firsts[(len(firsts) - 1) // 2]
        window = slice(first, first + self._window)
        known = [one for one in self._phases[window] if one is not None]
        phases = {name: 1e3 * statistics.fmean([one[name] for one in known]) for name in PHASES} if known else None
        return Measured(1e3 * statistics.fmean(self._times[window]), [1e3 * one for one in self._times], self._window,
                        phases)

    def _analyse(self) -> None:
        self._stage = "done"
        interval = self._attempt(self._advise) if _rank() == 0 else None
        if self.change_update_interval:
            self._interval = _same_on_all_ranks(interval)
        if self._interval is None:
            self._turn_off()

    def _advise(self) -> Optional[int]:
        """The advice, logged and written; and the interval that is wanted, if one is."""
        assert self._shapes is not None
        job = find_job(self.output, module=self._module, engine=self._engine, arguments=self._arguments,
                       shapes=self._shapes, model=self.model, sequence_length=self.sequence_length)
        advice = advise(job, self._measured(), self.output, trace=self._trace(), module=self._module,
                        hardware=self.hardware, tune=self.tune, before=self.before,
                        target="deepspeed" if self._arguments is None else "hf")
        self.advice = advice
        for line in advice.lines():
            _LOGGER.info("OffloadAdvisor: %s", line)
        interval = None
        if self.change_update_interval:
            interval, why = best_interval(advice, self._engine, version_of("deepspeed") or "?", self.tune)
            self._decided(why)
        write_report(self.output, advice)
        self._say(advice.numbers())
        return interval

    def _decided(self, what: str) -> None:
        _LOGGER.warning("OffloadAdvisor: update_interval: %s", what)
        if self.advice is not None:
            self.advice.decisions.append(what)

    def _change_if_due(self) -> None:
        interval, engine = self._interval, self._engine
        if self._stage != "done" or interval is None or engine.update_interval == interval:
            return
        if not _interval.is_due(engine, interval):
            return
        before = engine.update_interval
        _interval.change(engine, interval)
        self._attempt(lambda: self._say_change(before, interval))
        self._window, self._times, self._phases = interval, [], []
        self._enter("warmup", 2 * interval)

    def _say_change(self, before: int, interval: int) -> None:
        if self.advice is not None:
            self._decided("changed from %d to %d after micro step %d" % (before, interval, self._engine.micro_steps))
            write_report(self.output, self.advice)
            self._say({"update_interval": float(interval)})

    def _say_missed(self) -> None:
        if self.advice is not None:
            self._decided("stays: no step came at which it could change to %d" % (self._interval or 0))
            write_report(self.output, self.advice)

    def _report_change(self) -> None:
        if self.advice is not None:
            after = self._measured().step_ms
            self._decided("a step took %.1f ms before and %.1f ms after" % (self.advice.measured.step_ms, after))
            write_report(self.output, self.advice)
            self._say({"measured_step_ms_after_change": after})

    def _say(self, numbers: Mapping[str, float]) -> None:
        """Where the run logs to, on rank 0: the Trainer's integrations, DeepSpeed's monitor, the script's own."""
        named = {"zenflow/" + name: value for name, value in numbers.items()}
        if self._trainer is not None:
            self._trainer.log(dict(named))
        monitor: Any = getattr(self._engine, "monitor", None)
        if getattr(monitor, "enabled", False):
            monitor.write_events([(name, value, self._engine.global_samples) for name, value in named.items()])
        if self.log is not None:
            self.log(named, self._steps)


def _rank() -> int:
    import torch.distributed
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if ready else 0


def _same_on_all_ranks(value: Optional[int]) -> Optional[int]:
    """Rank 0's. All ranks call it after the same step."""
    import torch.distributed
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    values = [value]
    torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def _wait_for_gpu() -> None:
    import torch
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _profiler(steps: int, file: str) -> Any:
    """Not started yet: one step that does not count, then `steps`, which go into `file`."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    return profile(activities=activities, record_shapes=True,
                   schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
                   on_trace_ready=lambda done: done.export_chrome_trace(file))


def _trainer_above() -> Any:
    """The Trainer whose event this is: a callback is not told, and only it logs to all that the run logs to."""
    transformers = sys.modules["transformers"]
    frame: Any = sys._getframe(1)
    while frame is not None:
        one = frame.f_locals.get("self")
        if isinstance(one, transformers.Trainer):
            return one
        frame = frame.f_back
    return None
