"""The decode loops that are recorded: what each does, what is wrong with it, and what its twin does instead.

A scenario is a function of torch that prepares everything and returns `step(number)`. Preparing is not recorded. Nothing here
imports torch by itself, so that the list can be read without it.
"""

from dataclasses import dataclass, field
from typing import Callable

# Layers of the loops with small kernels: enough that a step takes far longer than its annotation.
LAYERS = 32


@dataclass(frozen=True)
class Scenario:
    """One trace and its label."""

    name: str
    prepare: Callable
    sequences: int = 1
    verdict: str = ""
    layer: str = ""
    cause: tuple = ()
    must_not: tuple = ()
    true_not_cause: tuple = ()
    say: str = ""
    # Named at all, in whatever role: for what is a limit and no fault.
    mentions: tuple = ()
    needs: tuple = field(default=())


def small_layers(torch, hidden):
    """A step of many small kernels, as a small model in eager mode has."""
    weights = [torch.randn(hidden, hidden, device="cuda", dtype=torch.bfloat16) * hidden**-0.5 for _ in range(LAYERS)]
    state = torch.randn(1, hidden, device="cuda", dtype=torch.bfloat16)

    def forward():
        x = state
        for weight in weights:
            y = torch.nn.functional.silu(x @ weight)
            x = x + y * 0.5
            x = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
        return x

    return forward


def in_graph(torch, forward):
    """The same work, replayed from one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward()
    return graph.replay


def eager(torch):
    forward = small_layers(torch, 1024)
    return lambda _: forward()


def eager_fixed(torch):
    replay = in_graph(torch, small_layers(torch, 1024))
    return lambda _: replay()


def large_layers(torch, rows, hidden=8192, count=8, dtype=None, after=None):
    """A step of a few large products: `count` matrices of `hidden` x `hidden`."""
    dtype = dtype or torch.bfloat16
    weights = [torch.randn(hidden, hidden, device="cuda", dtype=dtype) * hidden**-0.5 for _ in range(count)]
    state = torch.randn(rows, hidden, device="cuda", dtype=dtype)

    def forward(x=None):
        x = state if x is None else x
        for weight in weights:
            x = x @ weight
            if after:
                after(x)
        return x

    return forward


def item(torch):
    forward = large_layers(torch, rows=64, hidden=2048, count=LAYERS, after=lambda x: x[0, 0].item())
    return lambda _: forward()


def item_fixed(torch):
    forward = large_layers(torch, rows=64, hidden=2048, count=LAYERS)
    return lambda _: forward()


def pageable(torch):
    forward = large_layers(torch, rows=2048, hidden=8192, count=2)
    inputs = torch.randn(2048, 8192).to(torch.bfloat16)
    return lambda _: forward(inputs.to("cuda"))


def pageable_fixed(torch):
    forward = large_layers(torch, rows=2048, hidden=8192, count=2)
    inputs = torch.randn(2048, 8192, device="cuda", dtype=torch.bfloat16)
    return lambda _: forward(inputs)


def bandwidth(torch):
    replay = in_graph(torch, large_layers(torch, rows=1))
    return lambda _: replay()


def bandwidth_fixed(torch):
    replay = in_graph(torch, large_layers(torch, rows=256))
    return lambda _: replay()


def no_tensor_cores(torch):
    torch.backends.cuda.matmul.allow_tf32 = False
    forward = large_layers(torch, rows=2048, hidden=4096, count=8, dtype=torch.float32)
    return lambda _: forward()


def no_tensor_cores_fixed(torch):
    forward = large_layers(torch, rows=2048, hidden=4096, count=8)
    return lambda _: forward()


def compiled(torch):
    """A small function under torch.compile that does not generalize over shapes."""
    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = 64
    weight = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    return torch.compile(lambda x: torch.nn.functional.silu(x @ weight) * 0.5 + x, dynamic=False)


def recompile(torch):
    function = compiled(torch)
    states = [torch.randn(17 + 3 * number, 1024, device="cuda", dtype=torch.bfloat16) for number in range(64)]
    return lambda number: function(states[number % len(states)])


def recompile_fixed(torch):
    function = compiled(torch)
    state = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
    return lambda _: function(state)


KERNEL_FAULTS = ("launch_bound_steps", "unfused_small_kernels", "graph_fallback", "unexpected_syncs", "unexpected_copies")

SCENARIOS = [
    Scenario(
        "eager", eager, verdict="localized", layer="kernel", cause=("launch_bound_steps", "unfused_small_kernels", "graph_fallback"),
        must_not=("unexpected_syncs", "unexpected_copies", "host_link_bound"),
        say="32 layers of kernels of a few microseconds, launched one by one; graph fallback cannot be told apart without configuration",
    ),
    Scenario("eager_fixed", eager_fixed, must_not=KERNEL_FAULTS, say="the same work in one graph launch per step"),
    Scenario(
        "item", item, sequences=64, verdict="localized", layer="kernel", cause=("unexpected_syncs",),
        must_not=("unexpected_copies", "host_link_bound", "graph_fallback"), true_not_cause=("launch_bound_steps",),
        say="one .item() per layer: the host waits for the device before it launches the next product",
    ),
    Scenario("item_fixed", item_fixed, sequences=64, must_not=("unexpected_syncs", "unexpected_copies"), say="the same products without .item()"),
    Scenario(
        "pageable", pageable, sequences=2048, verdict="localized", cause=("unexpected_copies", "host_link_bound"),
        must_not=("launch_bound_steps", "graph_fallback"), say="32 MiB per step from pageable memory, on the stream of the products",
    ),
    Scenario(
        "pageable_fixed", pageable_fixed, sequences=2048, must_not=("unexpected_copies", "host_link_bound", "launch_bound_steps"),
        say="the same products of inputs that stay on the device",
    ),
    Scenario(
        "bandwidth", bandwidth, must_not=KERNEL_FAULTS + ("idle_tensor_cores",), mentions=("bandwidth_bound_decode",),
        say="1 GiB of weights per step for one sequence, from a graph: at the memory's speed, no fault",
    ),
    Scenario("bandwidth_fixed", bandwidth_fixed, sequences=256, must_not=KERNEL_FAULTS, say="the same weights for 256 sequences"),
    Scenario(
        "no_tensor_cores", no_tensor_cores, sequences=2048, verdict="localized", cause=("idle_tensor_cores", "mismatched_gemm_backend"),
        must_not=("launch_bound_steps", "unexpected_syncs", "graph_fallback"), say="FP32 products with TF32 off",
    ),
    Scenario(
        "no_tensor_cores_fixed", no_tensor_cores_fixed, sequences=2048, must_not=("idle_tensor_cores", "launch_bound_steps"),
        say="the same products in BF16",
    ),
    Scenario(
        "recompile", recompile, sequences=17, verdict="localized", layer="kernel", cause=("recompilation_stalls",),
        must_not=("unexpected_copies", "host_link_bound"), say="a shape that was never compiled in every step", needs=("compile",),
    ),
    Scenario("recompile_fixed", recompile_fixed, sequences=64, must_not=("recompilation_stalls",), say="one shape", needs=("compile",)),
]
