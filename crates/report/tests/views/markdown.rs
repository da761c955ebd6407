//! The text for an issue.

use analysis::contract::Report;
use expect_test::{Expect, expect};
use report::views::markdown::render;

use crate::fixtures;

fn check(report: &Report, expected: &Expect) {
    expected.assert_eq(&render(report));
}

#[test]
fn the_target_case() {
    check(
        &fixtures::open_loop_32(),
        &expect![[r#"
            # SCHEDULING: `batch_cap_reached`

            **Explains 97 % of the excess TTFT, confidence 0.9.** Requests wait 2.4 s for one of 32 seats (max_num_seqs) while 91 % of the KV cache is free, steps have room. Since 02:31Z, still so at 02:58Z; 1 of 1 engine.

            vllm 0.33.0, meta-llama/Llama-3.1-8B-Instruct, NVIDIA H100 80GB HBM3; 2026-07-14 02:48Z to 02:58Z, 10 min

            What would prove this wrong: queue time stays above 0.5 s once 64 seats are free. Then suspect `overload`.

            ## Do: `--max-num-seqs 64` (h1)

            now 32, start-up dump; restart, 74 s to reload.

            - Risk: TPOT rises with the batch: by at most 1.2 ms
            - Undo if: vllm:num_preemptions_total moves or TPOT mean passes 14 ms
            - Rollback: `--max-num-seqs 32, restart`
            - Versions: `>=0.6`

            | expect | signal | now | after |  |
            |---|---|--:|--:|---|
            | TTFT mean | `server.ttft.mean` | 2.51 s | 0.10..0.20 s | decides |
            | queue | `server.queue_time.mean` | 2.40 s | 0..0.05 s |  |
            | TPOT mean | `server.tpot.mean` | 12.8 ms | 12.4..14.0 ms | guard |
            | TPOT p99 | `server.tpot.p99` |  | up to 16 ms | guard |

            Throughput: 9.4 req/s, unchanged (arrivals); ceiling 9.7 -> 13.9.

            ## What popular fixes would gain here

            | fix | here | gain per request | price | because |
            |---|---|--:|---|---|
            | more seats | first choice | 2.36 s | free flag | arrivals fit into 64 seats |
            | FP8 weights | also works | 2.31 s | accuracy | shorter steps free the seats sooner |
            | a second GPU | also works | 2.38 s | money | halves the arrivals per engine |
            | more KV memory | no gain | 0 s | restart | 91 % of the cache is free |
            | larger token budget | no gain | 0 s | restart | steps reach it 2 % of the time |
            | shorter max_model_len | no gain | 0 s | restart | nothing is reserved for it |
            | speculative decoding | cannot tell |  | restart | no draft was ever measured here |

            ## Where 5.69 s went

            Mean of 5,640 requests in 10 min, seen at the server.

            | part | layer | mean | share | slowest 5 % |  |
            |---|---|--:|--:|--:|---|
            | api | application | 0.01 s | under 1 % | 50.0 ms, 1 % |  |
            | tokenize | application | 0.02 s | under 1 % | 50.0 ms, 1 % |  |
            | queue | scheduling | 2.40 s | 42 % | 6.53 s, 66 % |  |
            | prefill | kernel | 0.07 s | 1 % | 80.0 ms, 1 % |  |
            | decode | hardware | 3.18 s | 56 % | 3.17 s, 32 % | 2.1x memory floor |
            | unattributed |  | 0.01 s | under 1 % | 20.0 ms, under 1 % |  |

            ## Path

            1. Is it slow before the first token? **yes**: TTFT 2.51 s, TPOT steady at 12.8 ms (rules out kernel)
            2. Queue or prefill? **queue**: 2.40 s against 0.07 s
            3. Is the KV cache full? **no**: 9 % used (rules out memory)
            4. Are requests preempted? **no**: 0 in 10 min
            5. Do steps stand at the token budget? **no**: 2 % of steps
            6. Are all seats taken while requests wait? **yes**: 32 of 32 in 97 % of the waiting
            7. Would more seats carry more? **yes**: X(64)/X(32) = 1.42

            ## Findings

            ### `batch_cap_reached`, scheduling: the cause, 97 %

            Running stands at 32 of 32 in 97 % of the waiting while 91 % of the KV cache is free. Costs 2.33 s. Owns 93..98 %. Validated on: recorded.

            | evidence | value | from |
            |---|--:|---|
            | `engine.running.p50` | 32 requests | metrics.prom |
            | `engine.waiting.mean` | 22.6 requests | metrics.prom |
            | `kv.usage.mean` | 9 % | metrics.prom |
            | `config.max_num_seqs` | 32 | engine.log, start-up dump |

            ### `clock_throttling`, hardware: true, not the cause

            power cap active, memory clock unmoved. Validated on: recorded.

            | evidence | value | from |
            |---|--:|---|
            | `gpu.power` | 698 W | dcgm.prom |

            ## Limits of this server

            | what binds | at | from |
            |---|--:|---|
            | 32 seats | 9.74 req/s | step law 7.6 + 0.167 B ms at B = 32 |
            | 64 seats | 13.8 req/s | step law at B = 64 |
            | KV full | 21.2 req/s | capacity over mean tokens of a request |
            | device | 24.0 req/s | step law, B without bound |

            Now: 9.40 req/s.

            ## Unknown

            - proxies and client (no evidence there)
            - `host_bound_engine`: could own 80.0 ms, 3 %; needs `engine.host_gap`

            Recorded with (costs 1 % of one core for 60 s, no restart):

            ```sh
            inferoscope record --pid 4711 --sample-threads --for 60s -o host.capture
            ```

            ## Looked at and clear

            | check | because | margin |
            |---|---|---|
            | `kv_thrash` | no preemption in 10 min | preemptions 0 |
            | `token_budget_reached` | steps at the budget 2 % of the time | at_budget 0.0200 |

            ## Trust

            - Little's law closes to 0.6 %
            - 600 of 600 scrapes
            - no counter reset
            - confidence 0.9: counter sums that Little's law closes; no rival could own more than 3 %

            ## Configuration

            | setting | value | from |
            |---|---|---|
            | `config.max_num_seqs` | `32` | start-up dump |
            | `config.max_num_batched_tokens` | `8192` | start-up dump |
            | `config.max_model_len` | `32768` | command line |
            | `config.gpu_memory_utilization` | `0.9` | default of 0.33 |

            ## Sources

            | source | read as | rows | read |
            |---|---|--:|---|
            | `metrics.prom` | prometheus text | 84,600 | whole |
            | `engine.log` | vllm log | 1,204 | whole |

            ## Next

            ```sh
            inferoscope verify before.capture after.capture --hypothesis h1
            ```
        "#]],
    );
}

#[test]
fn thin_evidence() {
    check(
        &fixtures::insufficient(),
        &expect![[r#"
            # INSUFFICIENT EVIDENCE: no layer explains the slow decode

            TPOT is 48 ms, about 3.7x its memory floor, and nothing here tells host time from device time. 02:48Z to 02:58Z; 1 engine.

            vllm 0.33.0, meta-llama/Llama-3.1-8B-Instruct, NVIDIA H100 80GB HBM3; 2026-07-14 02:48Z to 02:58Z, 10 min

            ## Path

            1. Is the device busy between steps? **cannot tell**: no trace, no thread samples

            ## Unknown

            - engine version
            - which GPU
            - `host_bound_engine`: could own 35.0 ms, 73 %; needs `engine.host_gap`, `proc.gil_wait`

            Recorded with (costs 1 % of one core for 60 s, no restart):

            ```sh
            inferoscope record --pid 4711 --sample-threads --metrics http://10.0.0.7:8000/metrics --for 60s -o host.capture
            ```

            - `graph_fallback`: could own 12.0 ms, 30 %; needs `engine.host_gap`
            - `graph_padding`: could own 100 µs, under 1 %; needs `engine.host_gap`
            - `clock_throttling`: nothing bounds what it owns; needs `engine.host_gap`

            Recorded with (costs 1 % of one core for 60 s, no restart):

            ```sh
            inferoscope record --pid 4711 --sample-threads --for 60s -o host.capture
            ```

            ## Looked at and clear

            | check | because | margin |
            |---|---|---|
            | `kv_thrash` | no preemption in 10 min | preemptions 0 |
            | `token_budget_reached` | steps at the budget 2 % of the time | at_budget 0.0200 |

            ## Trust

            - 2 of 2 scrapes
            - no counter reset
            - confidence 0.4: two scrapes

            ## Configuration

            | setting | value | from |
            |---|---|---|
            | `config.max_num_seqs` | `32` | start-up dump |
            | `config.max_num_batched_tokens` | `8192` | start-up dump |
            | `config.max_model_len` | `32768` | command line |
            | `config.gpu_memory_utilization` | `0.9` | default of 0.33 |

            ## Sources

            | source | read as | rows | read |
            |---|---|--:|---|
            | `metrics.prom` | prometheus text | 84,600 | whole |
            | `engine.log` | vllm log | 1,204 | whole |

            ## Issues of the input

            | severity | code | place | count | what it means |
            |---|---|---|--:|---|
            | error | `truncated` | engine.log, line 1204 | 3 | The file ends inside a line; expected a time stamp, found 17 bytes of it. |
            | warning | `scrape_gap` | metrics.prom, 02:48:31 | 1 | Only two scrapes, 10 min apart; rates are means over all of it. |

            ## Next

            ```sh
            inferoscope diagnose before.capture host.capture
            ```
        "#]],
    );
}

#[test]
fn hostile_strings_open_no_markup() {
    let page = render(&fixtures::hostile());
    let outside_code: String = page.replace("\\`", "").split('`').step_by(2).collect();
    assert!(!outside_code.contains("<script") && !outside_code.contains("<img") && !outside_code.contains("</style"), "{page}");
    assert!(!page.chars().any(|sign| sign.is_control() && sign != '\n'));
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let bars = line.replace("\\|", "").matches('|').count();
        assert!((4..=7).contains(&bars), "a cell broke the table: {line}");
    }
}
