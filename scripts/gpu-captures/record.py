"""Records traces with known pathologies and checks that inferoscope names each: see README.md."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import trace_trim
from scenarios import SCENARIOS

# Steps that are recorded, after as many that are not.
STEPS = 6
WARM_UP = 3
# Time that one diagnosis or the bench may take, in seconds.
PATIENCE_S = 120


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write; a new or empty folder")
    parser.add_argument("--inferoscope", default="inferoscope", metavar="PROGRAM", help="the program that diagnoses")
    parser.add_argument("--only", default="", metavar="NAMES", help="scenarios to record, separated by commas; a twin comes along")
    parser.add_argument("--bench-seconds", type=int, default=30, metavar="N", help="time of the bench, 0 for none")
    parser.add_argument("--keep-raw", action="store_true", help="keep the traces as recorded beside the trimmed ones")
    parser.add_argument("--dry-run", action="store_true", help="print what would be recorded; needs neither GPU nor PyTorch")
    return parser.parse_args(arguments)


def chosen(only):
    """The scenarios asked for, each with its twin; all where none is named. An unknown name is an error."""
    if not only:
        return SCENARIOS
    wanted = {name.strip().removesuffix("_fixed") for name in only.split(",") if name.strip()}
    unknown = wanted - {scenario.name for scenario in SCENARIOS}
    if unknown:
        names = ", ".join(scenario.name for scenario in SCENARIOS if not scenario.name.endswith("_fixed"))
        raise SystemExit(f"error: expected scenarios of {names}; found {', '.join(sorted(unknown))}")
    return [scenario for scenario in SCENARIOS if scenario.name.removesuffix("_fixed") in wanted]


def annotation(scenario):
    """The words in which vLLM marks a step that decodes `sequences` tokens."""
    return f"execute_context_0(0)_generation_{scenario.sequences}({scenario.sequences})"


def record(torch, scenario, out, keep_raw):
    """Records one scenario and writes its trimmed trace."""
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.manual_seed(7)
    with torch.inference_mode():
        step = scenario.prepare(torch)
        for number in range(WARM_UP):
            step(number)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for number in range(WARM_UP, WARM_UP + STEPS):
                with record_function(annotation(scenario)):
                    step(number)
            torch.cuda.synchronize()
    raw = out / f"{scenario.name}.raw.json"
    profiler.export_chrome_trace(str(raw))
    trace_trim.write(trace_trim.trim(json.loads(raw.read_text())), out / f"{scenario.name}.json.gz")
    if not keep_raw:
        raw.unlink()
    del step
    torch.cuda.empty_cache()


def label(scenario):
    """The label of a trace, in the form of labels.toml."""
    lines = ["[[trace]]", f'file = "{scenario.name}.json.gz"']
    for key in ("verdict", "layer"):
        if getattr(scenario, key):
            lines.append(f"{key} = {quoted(getattr(scenario, key))}")
    for key in ("cause", "must_not", "true_not_cause"):
        values = getattr(scenario, key)
        if values:
            lines.append(f"{key} = [{', '.join(quoted(value) for value in values)}]")
    lines.append(f"say = {quoted(scenario.say)}")
    return "\n".join(lines) + "\n"


def quoted(text):
    """A TOML string; JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)


def labels(scenarios):
    head = "# What each trace shows by construction. `cause` one of the ids; `must_not` may never be the cause.\n"
    return head + "".join(label(scenario) for scenario in scenarios)


def judge(scenario, report):
    """What is wrong with a report of this scenario, one sentence each."""
    verdict = report["verdict"]
    cause = verdict.get("check")
    causes = [finding["check"] for finding in report["findings"] if finding["role"] == "cause"]
    wrong = []
    if scenario.cause and cause not in scenario.cause:
        wrong.append(f"expected {' or '.join(scenario.cause)}, found {cause or verdict['status']}")
    if scenario.verdict and verdict["status"] != scenario.verdict:
        wrong.append(f"expected the verdict {scenario.verdict}, found {verdict['status']}")
    if scenario.layer and verdict["status"] == "localized" and verdict.get("layer") != scenario.layer:
        wrong.append(f"expected the layer {scenario.layer}, found {verdict.get('layer')}")
    for check in scenario.must_not:
        if check == cause or check in causes:
            wrong.append(f"{check} may not be the cause")
    found = [finding["check"] for finding in report["findings"]]
    for check in scenario.mentions:
        if check not in found:
            wrong.append(f"{check} is not among the findings")
    return wrong


def diagnose(program, trace):
    """The report of a trace; an error is a sentence."""
    command = [program, "diagnose", "--json", "--exit-zero", "--no-ledger", str(trace)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip() or f"exit code {run.returncode}")
    return json.loads(run.stdout)


def bench(program, out, seconds):
    """Measures the device; the document, or a sentence why there is none."""
    command = [program, "bench", "--json", "--seconds", f"{seconds}s", "--capture", str(out / "bench.capture")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S + 4 * seconds, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip() or f"exit code {run.returncode}")
    document = json.loads(run.stdout)
    (out / "bench.json").write_text(run.stdout)
    if document["backend"] != "cuda":
        raise RuntimeError(f"the CPU was measured: {document['because']}")
    return document


def environment(torch):
    """What may be told of the machine."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def print_plan(scenarios):
    for scenario in scenarios:
        expected = " or ".join(scenario.cause) or "no cause"
        print(f"{scenario.name}: {scenario.say}; expected: {expected}")


def check_out(out):
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SystemExit(f"error: expected a new or empty folder, found `{out}` with something in it")
    out.mkdir(parents=True, exist_ok=True)


def record_all(torch, scenarios, options):
    """Records what can be recorded; a scenario that fails is told."""
    recorded, failed = [], []
    for scenario in scenarios:
        started = time.monotonic()
        try:
            record(torch, scenario, options.out, options.keep_raw)
        except Exception as error:  # any failure of one scenario leaves the others worth recording
            failed.append(f"{scenario.name}: not recorded: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        recorded.append(scenario)
        print(f"recorded {scenario.name} in {time.monotonic() - started:.1f} s", flush=True)
    return recorded, failed


def check_all(recorded, options):
    """A line per trace, and whether all were named as labeled."""
    lines, is_right = [], True
    for scenario in recorded:
        try:
            wrong = judge(scenario, diagnose(options.inferoscope, options.out / f"{scenario.name}.json.gz"))
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            wrong = [f"not diagnosed: {error}"]
        is_right = is_right and not wrong
        lines.append(f"{scenario.name}: {'as labeled' if not wrong else '; '.join(wrong)}")
    return lines, is_right


def main(arguments):
    options = parse(arguments)
    scenarios = chosen(options.only)
    if options.dry_run:
        print_plan(scenarios)
        return 0
    try:
        import torch
    except ImportError:
        raise SystemExit("error: PyTorch is not installed; --dry-run shows what would be recorded") from None
    if not torch.cuda.is_available():
        raise SystemExit("error: PyTorch sees no CUDA device; --dry-run shows what would be recorded")
    check_out(options.out)
    (options.out / "environment.json").write_text(json.dumps(environment(torch), indent=1) + "\n")
    recorded, failed = record_all(torch, scenarios, options)
    (options.out / "labels.toml").write_text(labels(recorded))
    lines, is_right = check_all(recorded, options)
    if options.bench_seconds:
        try:
            bench(options.inferoscope, options.out, options.bench_seconds)
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            failed.append(f"bench: {error}")
    text = "\n".join(lines + failed) + "\n"
    (options.out / "results.txt").write_text(text)
    print(text, end="")
    if failed:
        return 2
    return 0 if is_right else 1


if __name__ == "__main__":
    # A message of SystemExit is told on stderr with exit code 1; here 1 means a wrong answer.
    try:
        sys.exit(main(sys.argv[1:]))
    except SystemExit as exit_of:
        if isinstance(exit_of.code, str):
            print(exit_of.code, file=sys.stderr)
            sys.exit(2)
        raise
