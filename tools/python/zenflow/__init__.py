"""zenflow-sim within Python: what offloaded training takes, whether it fits, and what to change.

    import zenflow
    answer = zenflow.check(ds="ds_config.json", model="Qwen/Qwen3-8B", gpu="RTX 4090", gpus=2, ram="256GB")
    answer.verdict, answer.step_time_ms

The same code answers as in the programs, with the same numbers, within this process. Other threads of Python run
meanwhile. Times are milliseconds, memory is bytes.
"""

from zenflow._calls import Error, Infeasible, InputError
from zenflow._functions import check, lint, read_trace, simulate, tune
from zenflow._results import (
    Change, Check, Fact, Finding, Lint, Memory, Pcie, ScheduleResult, Simulation, Staleness, Trace, Tuned, TunedResult,
    TunedSetting)

__all__ = [
    "check", "simulate", "tune", "lint", "read_trace", "Error", "InputError", "Infeasible", "Change", "Check", "Fact",
    "Finding", "Lint", "Memory", "Pcie", "ScheduleResult", "Simulation", "Staleness", "Trace", "Tuned", "TunedResult",
    "TunedSetting"]
