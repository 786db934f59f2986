"""The profile of a machine whose GPU is DeepSpeed's CPU accelerator.

`zenflow-calibrate probe` measures memory, copies and CPU Adam. One measured run (two ranks, stage 2,
optimizer offloaded) says the rest: the rate of PyTorch's products, the time of a kernel's dispatch
and gloo's all-reduce, timed in its ranks; then, with these, the element-wise rate for which its
forward and backward come out right, and the rate of the host's passes for which its step() does.
What its memory has beyond the buffers predicted is the processes': shared files once, the rest by
rank.
"""

from schedule import run
from steps_predict import predict

SEARCHED = 18  # halvings of a bracket
HEAD = "measured by tests/interop/steps.py: "


def probe_machine(calibrate, folder):
    run([calibrate, "probe", "--quick", "-q", "-f", "-o", str(folder / "probed.yaml")])


def number(value, unit, what):
    text = f"{value:.6g} {unit}".strip()
    return {"value": text if unit else float(f"{value:.6g}"), "source": HEAD + what}


def with_run(profile, probed, ranks):
    """The probe's profile, with what a run's ranks measured in its place."""
    gpu, host = profile["gpu"], profile["host"]
    gpu["name"] = "DeepSpeed's CPU accelerator"
    gpu["count"] = number(ranks, "", "one core a rank")
    rate = probed["gemm_rate"]
    gpu["peak"]["bf16"] = number(rate / 1e9, "GFLOPS", "the model's products under PyTorch, bf16")
    gpu["gemm_efficiency"] = number(1, "", "the peak is what products reach")
    gpu["gemm_half_size"] = number(1e-6, "MFLOP", "no loss is separated")
    gpu["attention_efficiency"] = number(0.3, "", "assumed: of the products' rate")
    gpu["kernel_launch"] = number(probed["kernel_seconds"] * 1e6, "us", "a kernel of a tiny Llama")
    profile["gpu_link"] = {
        "kind": "gloo",
        "bandwidth": number(probed["gloo_rate"] / 1e9, "GB/s", "all-reduce in bf16, two ranks"),
        "latency": number(probed["gloo_latency"] * 1e6, "us", "all-reduce of 64 KiB")}
    host["dram_bandwidth"] = {
        **host["dram_bandwidth"],
        "value": f"{max(read(host['dram_bandwidth']), 2 * read(host['core_bandwidth'])):.4g} GB/s"}
    return profile


def read(entry):
    return float(str(entry["value"]).split()[0])


def bisect(low, high, too_slow):
    """The rate between `low` and `high` at which a prediction stops to be too slow."""
    for _ in range(SEARCHED):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if too_slow(middle) else (low, middle)
    return (low * high) ** 0.5


def fit(program, folder, measured, scenario_for, ranks):
    """{file, process, files, fitted}: the profile written, bytes of a process and of the files that
    all map, and the constants as text."""
    import yaml

    profile = yaml.safe_load((folder / "probed.yaml").read_text())
    with_run(profile, measured["probe"], ranks)
    file = folder / "profile.yaml"
    forward, backward, step = measured["phases"]

    def predicted():
        profile["name"] = file.stem
        file.write_text(yaml.safe_dump(profile, sort_keys=False, width=1000))
        return predict(program, scenario_for(file), folder)

    def elementwise_too_slow(value):
        profile["gpu"]["elementwise_efficiency"] = number(value, "", "forward and backward of one run")
        return sum(predicted()["phases"][:2]) > forward + backward

    def host_too_slow(value):
        rate = number(value, "GB/s", "step() of one run")
        profile["host"]["adam_bandwidth"] = rate
        profile["host"]["elementwise_bandwidth"] = dict(rate)  # YAML would write an alias
        return predicted()["phases"][2] > step

    bisect(1e-3, 1, elementwise_too_slow)
    bisect(0.1, read(profile["host"]["dram_bandwidth"]), host_too_slow)
    found = predicted()
    files = measured["memory"]["Pss_File"]
    process = (measured["memory"]["Pss"] - files - found["buffers"]) / ranks
    constants = {
        "products, GFLOPS": measured["probe"]["gemm_rate"] / 1e9,
        "dispatch of a kernel, us": 1e6 * measured["probe"]["kernel_seconds"],
        "gloo all-reduce, GB/s": measured["probe"]["gloo_rate"] / 1e9,
        "gloo latency, us": 1e6 * measured["probe"]["gloo_latency"],
        "gpu.elementwise_efficiency": profile["gpu"]["elementwise_efficiency"]["value"],
        "host.adam_bandwidth": profile["host"]["adam_bandwidth"]["value"],
        "process, MiB": process / 2**20, "files shared by processes, MiB": files / 2**20}
    return {"file": file, "process": process, "files": files, "fitted": constants}
