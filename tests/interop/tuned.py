"""Does the real DeepSpeed accept what zenflow-tune writes?

Run by script/interop in a virtual environment with deepspeed and transformers:
  tuned.py ZENFLOW_TUNE ZENFLOW_SIM SCENARIO...
For every scenario and target (deepspeed, hf, accelerate), tuned freely and with ZenFlow alone, the
file written must pass `zenflow-sim lint` and be accepted by DeepSpeedConfig of the release installed;
for hf Trainer must find nothing in it that contradicts the command written with it.
Ends with the numbers; what is refused is listed, and the exit code is 1.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from trainer import mismatches
from verdicts import DeepSpeed, Says

TARGETS = ("deepspeed", "hf", "accelerate")
PLACEMENTS = (None, "zenflow")
INFEASIBLE = 3


def tune(program, scenario, target, placement, version, folder):
    """The finished process; results are in `folder`."""
    command = [program, str(scenario), "--schedule", "deepspeed-zenflow", "--target", target,
               "--deepspeed-version", version, "--front-within", "0", "--top", "1", "-q",
               "-o", str(folder)]
    if placement:
        command += ["--vary", f"placement={placement}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def lint(program, file, target, version, world_size):
    return subprocess.run([program, "lint", str(file), "--target", target, "--deepspeed-version",
                           version, "--world-size", str(world_size)],
                          capture_output=True, text=True, check=False)


def check(options, deepspeed, scenario, target, placement):
    """What is wrong; nothing if all is well; None if there is no candidate."""
    with tempfile.TemporaryDirectory() as folder:
        run = tune(options.tune, scenario, target, placement, deepspeed.version, folder)
        if run.returncode == INFEASIBLE and placement:
            return None
        if run.returncode != 0:
            return f"zenflow-tune: exit code {run.returncode}: {run.stderr.strip()}"
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        world_size = summary["chosen"]["setting"]["gpus"]
        file = pathlib.Path(folder) / "ds_config_optimal.json"
        linted = lint(options.sim, file, target, deepspeed.version, world_size)
        if linted.returncode != 0:
            return linted.stdout.strip()
        verdict = deepspeed.verdict(file, world_size)
        if verdict.says is not Says.ACCEPTED:
            return f"DeepSpeed: {verdict.why}"
        command = (pathlib.Path(folder) / "cmd_optimal.txt").read_text()
        wrong = mismatches(file, command, world_size) if target == "hf" else []
        return f"Trainer: {'; '.join(wrong)}" if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tune", help="zenflow-tune")
    parser.add_argument("sim", help="zenflow-sim")
    parser.add_argument("scenarios", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    deepspeed = DeepSpeed()
    accepted = infeasible = refused = 0
    for scenario in options.scenarios:
        for target in TARGETS:
            for placement in PLACEMENTS:
                wrong = check(options, deepspeed, scenario, target, placement)
                if wrong is None:
                    infeasible += 1
                elif wrong:
                    refused += 1
                    print(f"{scenario.stem}, {target}, {placement or 'free'}: {wrong}")
                else:
                    accepted += 1
    print(f"DeepSpeed {deepspeed.version}: {accepted} tuned configurations accepted, {refused} not; "
          f"{infeasible} times no candidate with ZenFlow alone")
    return 1 if refused or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
