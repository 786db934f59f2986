"""What runs here: GPU, driver, toolkit, host, and of which commit."""
import ctypes
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess

CUDA_ERRORS = {3: "CUDA_ERROR_NOT_INITIALIZED", 34: "CUDA_ERROR_STUB_LIBRARY",
               35: "driver older than the library", 100: "CUDA_ERROR_NO_DEVICE",
               803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 999: "CUDA_ERROR_UNKNOWN"}


def output_of(*command):
    """Standard output without the last newline, or None if the program is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _ask_driver(answer):
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        answer.send({"why": f"the driver's library does not load: {error}"})
        return
    status = driver.cuInit(0)
    if status != 0:
        answer.send({"why": f"cuInit: error {status} ({CUDA_ERRORS.get(status, 'see cuda.h')})"})
        return
    count, version = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDriverGetVersion(ctypes.byref(version))
    names = []
    for index in range(count.value):
        device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode(errors="replace"))
    if not names:
        answer.send({"why": "the driver sees no GPU"})
        return
    answer.send({"names": names, "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"})


def gpus():
    """{"names", "cuda"} of the usable GPUs, or {"why"}. In another process: what the driver sets up
    does not stay in this one, and a driver that crashes or hangs is an answer too."""
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=_ask_driver, args=(send,), daemon=True)
    child.start()
    send.close()
    try:
        answer = receive.recv() if receive.poll(60) else {"why": "the driver does not answer"}
    except EOFError:
        answer = {"why": "the driver crashes the program that asks it"}
    child.kill()
    child.join()
    return answer


def driver_release():
    if release := output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"):
        return release.splitlines()[0]
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", text)
    return found[1] if found else None


def nvcc():
    """Path of nvcc, or None."""
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    places = [os.environ.get("CUDACXX"), shutil.which("nvcc"), f"{home}/bin/nvcc"]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def toolkit():
    compiler = nvcc()
    text = output_of(compiler, "--version") if compiler else None
    found = re.search(r"V(\d+\.\d+\.\d+)", text or "")
    return found[1] if found else None


def _field(file, key):
    try:
        text = pathlib.Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{re.escape(key)}\s*[:=]\s*\"?(.*?)\"?$", text, re.MULTILINE)
    return found[1] if found else None


def host():
    memory = _field("/proc/meminfo", "MemTotal")
    return {"cpu": _field("/proc/cpuinfo", "model name"), "cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": int(memory.split()[0]) * 1024 if memory else None,
            "kernel": " ".join((os.uname().sysname, os.uname().release)),
            "system": _field("/etc/os-release", "PRETTY_NAME")}


def commit(root, given):
    """{"id", "from", "changed"}. `changed`: whether there are changes on top of it, if known."""
    for source, text in (("--commit", given), ("ZENFLOW_COMMIT", os.environ.get("ZENFLOW_COMMIT"))):
        if text:
            return {"id": text, "from": source, "changed": None}
    top = output_of("git", "-C", str(root), "rev-parse", "--show-toplevel")
    if top and pathlib.Path(top).resolve() == root:
        return {"id": output_of("git", "-C", str(root), "rev-parse", "HEAD"), "from": "git",
                "changed": bool(output_of("git", "-C", str(root), "status", "--porcelain"))}
    file = root / "COMMIT"
    if file.is_file():
        return {"id": file.read_text(encoding="utf-8").strip(), "from": "file COMMIT",
                "changed": None}
    return {"id": None, "from": None, "changed": None}
