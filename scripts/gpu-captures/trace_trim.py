"""Trimming of PyTorch profiler traces to what a device timeline needs.

Kept: device events, calls of CUDA, annotations, the profiler's own overhead, and of host operators those that hold a call
that waits or copies. Paths, stacks and names of machines are left out.
"""

import gzip
import json
from bisect import bisect_left

# Categories that are kept whole.
KEPT = {
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync", "user_annotation", "gpu_user_annotation", "overhead",
}
# Parts of names of calls whose enclosing operator says who made them.
TELLING = ("Synchronize", "Memcpy", "memcpy")
# Details that are kept.
DETAILS = {
    "device", "stream", "correlation", "bytes", "grid", "block", "registers per thread", "shared memory", "graph node id", "graph id",
    "context", "cbid", "memory bandwidth (GB/s)", "External id", "name", "sort_index", "labels",
}
# Members of the document that are kept beside its events.
MEMBERS = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds", "distributedInfo")


def trim(document):
    """A new document with what a timeline needs, in the order found."""
    events = document.get("traceEvents", [])
    spans = telling_spans(events)
    kept = [reduced(event) for event in events if is_kept(event, spans)]
    trimmed = {key: document[key] for key in MEMBERS if key in document}
    trimmed["traceEvents"] = kept
    return trimmed


def telling_spans(events):
    """Of each thread the times of calls that wait or copy, sorted."""
    spans = {}
    for event in events:
        is_call = event.get("cat") in ("cuda_runtime", "cuda_driver")
        if is_call and any(word in event.get("name", "") for word in TELLING):
            spans.setdefault((event.get("pid"), event.get("tid")), []).append(event["ts"])
    for times in spans.values():
        times.sort()
    return spans


def is_kept(event, spans):
    if event.get("ph") == "M":
        return event.get("name") in ("process_name", "process_sort_index", "thread_name")
    if event.get("ph") not in ("X", "i"):
        return False
    if event.get("cat") in KEPT:
        return True
    return event.get("cat") == "cpu_op" and holds_one(event, spans.get((event.get("pid"), event.get("tid")), []))


def holds_one(event, times):
    """Whether one of the sorted times lies within the event."""
    at = bisect_left(times, event["ts"])
    return at < len(times) and times[at] <= event["ts"] + event.get("dur", 0)


def reduced(event):
    event = dict(event)
    if "args" in event:
        event["args"] = {key: value for key, value in event["args"].items() if key in DETAILS}
    if event.get("ph") == "M" and event.get("name") == "process_name":
        # The command line of the recording stands here.
        event["args"] = {"name": "python"}
    return event


def write(document, path):
    """Writes the document compressed; the same document gives the same bytes."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        packed.write(text.encode())
