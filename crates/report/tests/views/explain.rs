//! Manual pages on a terminal.

use expect_test::{Expect, expect};
use report::clean;
use report::views::explain::render;
use report::views::terminal::TerminalOptions;

const PAGE: &str = "\
# kv_thrash

The KV cache evicts blocks that **running requests** need again, so their prompts are computed twice and every one of
them waits for it. See [the vLLM manual](https://docs.vllm.ai/) and [`KvUsage`].

## How to confirm
- `vllm:num_preemptions_total` rises while usage is above 95 % and requests wait; a lifetime counter that stands still proves nothing
  - per engine, not summed
1. Scrape for 5 min.
2. Compare recomputed tokens:

```sh
inferoscope record http://host:8000/metrics -o run.capture   # a long line that must not be wrapped or cut anywhere
```

| route | needs | says |
|---|---|---|
| counters | `kv.preemptions` | rate |
| log | preemption lines | rate, victims |

## When this is wrong
[unclosed, and \u{1b}[31ma colored\u{1b}[0m word";

fn check(page: &str, options: TerminalOptions, expected: &Expect) {
    let text = render(page, options);
    assert!(!text.chars().any(|sign| sign.is_control() && sign != '\n' && !options.color), "control characters");
    for line in text.lines().filter(|line| !line.contains("inferoscope record")) {
        assert!(clean::columns(line) <= options.width, "wider than {}: {line}", options.width);
    }
    expected.assert_eq(&text);
}

#[test]
fn a_page_reads_like_a_manual() {
    check(
        PAGE,
        TerminalOptions { width: 72, color: false, blocks: false },
        &expect![[r#"
        kv_thrash

            The KV cache evicts blocks that running requests need again, so
            their prompts are computed twice and every one of them waits for it.
            See the vLLM manual (https://docs.vllm.ai/) and `KvUsage`.

        How to confirm
            - `vllm:num_preemptions_total` rises while usage is above 95 % and
              requests wait; a lifetime counter that stands still proves nothing
              - per engine, not summed
            1. Scrape for 5 min.
            2. Compare recomputed tokens:

                inferoscope record http://host:8000/metrics -o run.capture   # a long line that must not be wrapped or cut anywhere

            route     needs             says
            counters  `kv.preemptions`  rate
            log       preemption lines  rate, victims

        When this is wrong
            [unclosed, and [31ma colored[0m word
    "#]],
    );
}

#[test]
fn a_table_too_wide_becomes_a_list() {
    let page = "## Signals\nread here:\n| signal | meaning |\n|---|---|\n| `kv.preemptions` | requests thrown out of the cache and computed again |\n| | second |\nand no other.";
    check(
        page,
        TerminalOptions { width: 40, color: false, blocks: false },
        &expect![[r#"
            Signals
                read here:
                - signal: `kv.preemptions`; meaning:
                  requests thrown out of the cache
                  and computed again
                - meaning: second
                and no other.
        "#]],
    );
}
