"""The report of an advisor: report.json, and report.md for people."""

import os
from typing import Any, Dict, List, Optional

from zenflow.integrations._advice import Advice
from zenflow.integrations._job import write_json


def write_report(folder: str, advice: Advice) -> None:
    """report.md and report.json; earlier ones are replaced."""
    write_json(os.path.join(folder, "report.json"), _document(advice))
    with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(_page(advice)) + "\n")


def _document(advice: Advice) -> Dict[str, Any]:
    tuned = advice.tuned
    return {
        "schema_version": 1,
        "measured_step_ms": advice.measured.step_ms,
        "measured_steps_ms": advice.measured.steps_ms,
        "phases_ms": advice.measured.phases_ms,
        "predicted_step_ms": advice.predicted_ms,
        "tokens": advice.tokens,
        "hardware": advice.node.what,
        "fitted": advice.node.fitted,
        "predicted_gain": advice.gain,
        "changes": [] if tuned is None else tuned.changes,
        "command": None if tuned is None else tuned.command,
        "before": advice.before,
        "decisions": advice.decisions,
        "assumed": advice.job.said,
        "notes": advice.notes + ([] if tuned is None else tuned.warnings),
        "trace": None if advice.trace is None else advice.trace.document,
    }


def _page(advice: Advice) -> List[str]:
    measured, tuned = advice.measured, advice.tuned
    lines = ["# Offload advice", "", "| a step | ms |", "|---|---|", "| measured | %.1f |" % measured.step_ms,
             "| predicted | %.1f |" % advice.predicted_ms]
    if measured.phases_ms is not None and advice.node.fitted:  # of a GPU the host's clock knows no phases
        lines += ["| of it in %s | %.1f |" % (name, value) for name, value in measured.phases_ms.items()]
    lines += ["", "Measured are %d steps without the profiler, in windows of %d." % (
        len(measured.steps_ms), measured.window)]
    if advice.node.fitted:
        lines += ["", "The prediction is no independent one: this host's constants are fitted to this very run%s." % (
            "" if advice.node.explains else ", and do not explain it within 5 %")]
    if tuned is not None:
        lines += _tuned(advice)
    if advice.before is not None:
        lines += ["", "## Against the earlier run", "", "Tokens a second: %.2f times as many were predicted, %.2f are "
                  "measured." % (advice.before["predicted_gain"], advice.before["measured_gain"])]
    for title, items in (("update_interval", advice.decisions), ("The recording", _trace(advice)),
                         ("What was found of the job", ["hardware: " + advice.node.what] + advice.job.said),
                         ("Notes", advice.notes + ([] if tuned is None else tuned.warnings))):
        if items:
            lines += ["", "## " + title, ""] + ["- " + item for item in items]
    return lines


def _tuned(advice: Advice) -> List[str]:
    assert advice.tuned is not None
    lines = ["", "## What would be faster", ""]
    if advice.gain is None:
        return lines + ["Nothing that could be relied on: see the notes."]
    lines += ["%.2f times as many tokens a second are predicted of `tuned/ds_config_optimal.json`:" % advice.gain, ""]
    lines += ["- `%s`" % change for change in advice.tuned.changes] or ["- nothing: it is as it was"]
    return lines + ["", "    " + advice.tuned.command]


def _trace(advice: Advice) -> List[str]:
    if advice.trace is None:
        return []
    document = advice.trace.document
    steps = advice.trace.steps["count"]
    said = ["`trace.json.gz`: %d steps with the profiler, %.1f ms each" % (steps, advice.trace.steps["mean_ms"] or 0.0)]
    for device in document.get("devices", []):
        causes = ", ".join("%s %.1f" % (cause, time / max(steps, 1))
                           for cause, time in device["stall_by_cause_ms"].items() if time)
        said.append("%s: of a step it computes %.1f ms and waits %.1f ms (%s)" % (
            device.get("name", device["device"]), device["compute_ms"] / max(steps, 1),
            device["stall_ms"] / max(steps, 1), causes))
    longest: Optional[List[Dict[str, Any]]] = document.get("top_operators")
    said += ["%s: %d times, %.1f ms" % (one["name"], one["count"], one["time_ms"]) for one in (longest or [])[:5]]
    return said
