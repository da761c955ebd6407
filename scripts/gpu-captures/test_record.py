"""Everything but the recording itself."""

import contextlib
import gzip
import io
import json
import re
import tempfile
import unittest
from pathlib import Path

import record
import trace_trim
from scenarios import SCENARIOS


def event(cat, name, ts, dur=1, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": dur, "args": args}


class Trimming(unittest.TestCase):
    def trimmed(self, events):
        document = {"schemaVersion": 1, "deviceProperties": [], "traceName": "/home/user/trace.json", "traceEvents": events}
        return trace_trim.trim(document)

    def names(self, events):
        return [event["name"] for event in self.trimmed(events)["traceEvents"]]

    def test_device_and_calls_stay(self):
        events = [
            event("kernel", "gemm", 5.001), event("cuda_runtime", "cudaLaunchKernel", 1), event("python_function", "/home/user/a.py", 0),
            event("user_annotation", "execute_context_0(0)_generation_1(1)", 0), {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 1},
        ]
        self.assertEqual(self.names(events), ["gemm", "cudaLaunchKernel", "execute_context_0(0)_generation_1(1)"])

    def test_operators_stay_where_they_hold_a_wait_or_a_copy(self):
        events = [
            event("cpu_op", "aten::item", 10, 5), event("cuda_runtime", "cudaStreamSynchronize", 12), event("cpu_op", "aten::mm", 20, 5),
            event("cpu_op", "aten::copy_", 10, 5, tid=2),
        ]
        self.assertEqual(self.names(events), ["aten::item", "cudaStreamSynchronize"])

    def test_places_of_the_machine_go(self):
        events = [
            {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "ts": 0, "args": {"name": "python /home/user/record.py"}},
            event("kernel", "gemm", 1, correlation=7, **{"Call stack": "/home/user/a.py"}),
        ]
        trimmed = self.trimmed(events)
        self.assertNotIn("home", json.dumps(trimmed))
        self.assertEqual(trimmed["traceEvents"][1]["args"], {"correlation": 7})

    def test_the_same_document_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("a.json.gz", "b.json.gz")]
            for path in paths:
                trace_trim.write({"traceEvents": [event("kernel", "größer", 1.5)]}, path)
            self.assertEqual(paths[0].read_bytes(), paths[1].read_bytes())
            self.assertEqual(json.loads(gzip.decompress(paths[0].read_bytes()))["traceEvents"][0]["name"], "größer")


class Labels(unittest.TestCase):
    def test_each_trace_has_one(self):
        text = record.labels(SCENARIOS)
        self.assertEqual(text.count("[[trace]]"), len(SCENARIOS))
        self.assertEqual(re.findall(r'^file = "(.*)"$', text, re.MULTILINE), [f"{scenario.name}.json.gz" for scenario in SCENARIOS])

    def test_they_are_toml(self):
        try:
            import tomllib
        except ImportError:
            self.skipTest("this Python has no TOML reader")
        traces = tomllib.loads(record.labels(SCENARIOS))["trace"]
        item = next(trace for trace in traces if trace["file"] == "item.json.gz")
        self.assertEqual((item["verdict"], item["cause"]), ("localized", ["unexpected_syncs"]))

    def test_ids_are_those_of_failure_modes(self):
        pages = Path(__file__).resolve().parents[2] / "docs" / "checks"
        for scenario in SCENARIOS:
            for check in scenario.cause + scenario.must_not + scenario.true_not_cause + scenario.mentions:
                self.assertTrue((pages / f"{check}.md").is_file(), f"{scenario.name}: {check}")

    def test_each_has_its_twin(self):
        names = [scenario.name for scenario in SCENARIOS]
        slow = [name for name in names if not name.endswith("_fixed")]
        self.assertEqual(sorted(names), sorted(slow + [f"{name}_fixed" for name in slow]))


def report(check, status="localized", layer="kernel", others=()):
    findings = [{"check": check, "role": "cause"}] if check else []
    findings += [{"check": other, "role": "limit"} for other in others]
    return {"verdict": {"status": status, "check": check, "layer": layer}, "findings": findings}


class Judging(unittest.TestCase):
    def wrong(self, name, found):
        return record.judge(next(scenario for scenario in SCENARIOS if scenario.name == name), found)

    def test_a_trace_that_is_named_is_right(self):
        self.assertEqual(self.wrong("item", report("unexpected_syncs")), [])
        self.assertEqual(self.wrong("item_fixed", report(None, "healthy", None)), [])
        self.assertEqual(self.wrong("bandwidth", report(None, "healthy", None, ["bandwidth_bound_decode"])), [])

    def test_a_trace_that_is_not_named_is_wrong(self):
        self.assertIn("expected unexpected_syncs, found launch_bound_steps", self.wrong("item", report("launch_bound_steps")))
        self.assertIn("expected the verdict localized, found healthy", self.wrong("item", report(None, "healthy", None)))
        self.assertEqual(self.wrong("item_fixed", report("unexpected_syncs")), ["unexpected_syncs may not be the cause"])
        self.assertEqual(self.wrong("bandwidth", report(None, "healthy", None)), ["bandwidth_bound_decode is not among the findings"])


class Arguments(unittest.TestCase):
    def test_a_twin_comes_along(self):
        self.assertEqual([scenario.name for scenario in record.chosen("item_fixed")], ["item", "item_fixed"])
        self.assertEqual(record.chosen(""), SCENARIOS)
        with self.assertRaisesRegex(SystemExit, "found nonsense"):
            record.chosen("item,nonsense")

    def test_a_folder_with_something_in_it_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            record.check_out(Path(folder) / "new")
            (Path(folder) / "mine").write_text("")
            with self.assertRaisesRegex(SystemExit, "new or empty folder"):
                record.check_out(Path(folder))

    def test_a_dry_run_prints_the_plan(self):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            self.assertEqual(record.main(["--out", "nowhere", "--dry-run", "--only", "eager"]), 0)
        self.assertEqual(len(text.getvalue().splitlines()), 2)
        self.assertFalse(Path("nowhere").exists())

    def test_steps_are_marked_as_engines_do(self):
        self.assertEqual(record.annotation(SCENARIOS[2]), "execute_context_0(0)_generation_64(64)")


if __name__ == "__main__":
    unittest.main()
