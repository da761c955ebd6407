//! Result files of load generators: exact values, and one run seen through the definitions of each tool.

use capture::Capture;
use expect_test::{Expect, expect};
use ingest::Options;

use crate::shown::{check, data, import, import_text};

const TABLES: &[&str] = &["sources", "runs", "points", "samples", "requests", "counts"];

fn check_file(name: &str, expected: Expect) {
    check(&import(&[data(&format!("load-results/{name}"))]), TABLES, expected);
}

#[test]
fn sglang_bench_serving() {
    check_file(
        "sglang-bench.jsonl",
        expect![[r#"
            source sglang-bench.jsonl sglang_bench_jsonl rows=34 unmapped=0
            run 0  |  |  |  | 
            0 0 client.completed{} 32
            0 0 client.concurrency{} 16
            0 0 client.concurrency.max{} 32
            0 0 client.concurrency.mean{} 15.904609928480232
            0 0 client.duration{} 2.964858318
            0 0 client.e2e.mean{} 1.47359109503125
            0 0 client.e2e.p50{} 1.4735599455
            0 0 client.e2e.p90{} 1.4767781432
            0 0 client.e2e.p95{} 1.4768000324000001
            0 0 client.e2e.p99{} 1.47685003412
            0 0 client.e2e.std{} 0.0030453279897492795
            0 0 client.itl.mean{} 0.020032454001984105
            0 0 client.itl.p50{} 0.019890048
            0 0 client.itl.p90{} 0.031865056
            0 0 client.itl.p95{} 0.03624721525
            0 0 client.itl.p99{} 0.04824440375
            0 0 client.itl.std{} 0.009911681999969085
            0 0 client.throughput.output{} 690.7581342306827
            0 0 client.throughput.output.max{} 768
            0 0 client.throughput.prompt{} 1381.5162684613654
            0 0 client.throughput.requests{} 10.793095847354417
            0 0 client.throughput.total{} 2072.2744026920477
            0 0 client.tpot.mean{} 0.02003248250694445
            0 0 client.tpot.p50{} 0.0200285775
            0 0 client.tpot.p90{} 0.02006336546031746
            0 0 client.tpot.p95{} 0.02006348532063492
            0 0 client.tpot.p99{} 0.020065017231746033
            0 0 client.tpot.std{} 0.000022228492695945607
            0 0 client.ttft.mean{} 0.21154469709375007
            0 0 client.ttft.p50{} 0.2117038855
            0 0 client.ttft.p90{} 0.21597717230000002
            0 0 client.ttft.p95{} 0.215979079
            0 0 client.ttft.p99{} 0.21602361806000003
            0 0 client.ttft.std{} 0.004412298926136186
            runs=1 samples=34 issues=1
            ! note definitions sglang-bench.jsonl [] x1 milliseconds became seconds; `tpot` is (latency - ttft) / (output tokens - 1) as here; `itl` is one gap per delivered chunk, whatever tokens it holds (SGLang's native API: spread over them); output tokens are the server's count, the client's count (`retokenized`) is left out; the file says no date, so its figures stand at time 0
        "#]],
    );
}

#[test]
fn guidellm() {
    check_file(
        "guidellm-benchmarks.json",
        expect![[r#"
            source guidellm-benchmarks.json guidellm_json rows=38 unmapped=0
            run 0  |  |  |  | 
            1796032678131917200 0 client.completed{} 8
            1796032678131917200 0 client.concurrency{} 4
            1796032678131917200 0 client.concurrency.mean{} 3.856355451171077
            1796032678131917200 0 client.duration{} 0.8661088943481445
            1796032678131917200 0 client.e2e.max{} 0.42003297805786133
            1796032678131917200 0 client.e2e.mean{} 0.4175029695034027
            1796032678131917200 0 client.e2e.min{} 0.4127798080444336
            1796032678131917200 0 client.e2e.p50{} 0.4171161651611328
            1796032678131917200 0 client.e2e.p90{} 0.42003297805786133
            1796032678131917200 0 client.e2e.p95{} 0.42003297805786133
            1796032678131917200 0 client.e2e.p99{} 0.42003297805786133
            1796032678131917200 0 client.e2e.std{} 0.0024706843493916453
            1796032678131917200 0 client.errors{} 0
            1796032678131917200 0 client.throughput.output{} 295.57484245981806
            1796032678131917200 0 client.throughput.prompt{} 1182.2993698392722
            1796032678131917200 0 client.throughput.requests{} 9.236713826869314
            1796032678131917200 0 client.throughput.total{} 1477.87421229909
            1796032678131917200 0 client.tpot.mean{} 0.010057992741935484
            1796032678131917200 0 client.tpot.p50{} 0.010085329032258065
            1796032678131917200 0 client.tpot.p90{} 0.010163070967741935
            1796032678131917200 0 client.tpot.p95{} 0.010183348387096775
            1796032678131917200 0 client.tpot.p99{} 0.010199570322580646
            1796032678131917200 0 client.ttft.max{} 0.10875487327575684
            1796032678131917200 0 client.ttft.mean{} 0.10570523142814636
            1796032678131917200 0 client.ttft.min{} 0.1025538444519043
            1796032678131917200 0 client.ttft.p50{} 0.10625219345092773
            1796032678131917200 0 client.ttft.p90{} 0.10875487327575684
            1796032678131917200 0 client.ttft.p95{} 0.10875487327575684
            1796032678131917200 0 client.ttft.p99{} 0.10875487327575684
            1796032678131917200 0 client.ttft.std{} 0.0023352672102889592
            1796032677265808300 client,47b3e35c-7303-4139-9c22-ba0de5a6a601,,, -0.00279 - - - 0.10875 0.41457 0.41504 Some(128)/Some(32)
            1796032677268922600 client,174574e6-d2f8-4427-8c17-5ee6c2fe3233,,, -0.00590 - - - 0.10625 0.41235 0.41278 Some(128)/Some(32)
            1796032677273321400 client,8e19823a-fad9-4831-9fd1-de80237c5c1a,,, -0.01030 - - - 0.10260 0.41286 0.41712 Some(128)/Some(32)
            1796032677290338800 client,0bd93b94-e661-4e73-8df4-ac757b9c6c84,,, -0.02732 - - - 0.10346 0.41518 0.41977 Some(128)/Some(32)
            1796032677696473800 client,02cf9528-b5e1-4656-81ce-bf3d54b130bf,,, -0.01477 - - - 0.10811 0.41779 0.41985 Some(128)/Some(32)
            1796032677700302000 client,b3a2ecda-3fcb-4029-96c2-58e5e2b1ea7d,,, -0.01946 - - - 0.10744 0.41657 0.41898 Some(128)/Some(32)
            1796032677707325700 client,21b9c9cc-dd2f-46cc-b396-cebe53f371da,,, -0.01689 - - - 0.10648 0.41931 0.42003 Some(128)/Some(32)
            1796032677715452700 client,11c7ae84-2381-4fec-b711-438c85ca9cd2,,, -0.00535 - - - 0.10255 0.41427 0.41646 Some(128)/Some(32)
            runs=1 samples=30 requests=8 issues=1
            ! note definitions guidellm-benchmarks.json [] x1 `time_per_output_token_ms` counts the time to the first token and is left out; `client.tpot` is computed from 8 requests as (end - first token) / (output tokens - 1), a mean over requests; `inter_token_latency_ms`, a mean up to the last token that is weighted by tokens, is left out; milliseconds became seconds; tokens are those the server reported, where it did
        "#]],
    );
}

#[test]
fn aiperf_summary() {
    check_file(
        "profile_export_aiperf.json",
        expect![[r#"
        source profile_export_aiperf.json aiperf_json rows=41 unmapped=0
        run 0  |  |  |  | 
        1796032753335967000 0 client.completed{} 8
        1796032753335967000 0 client.concurrency{} 4
        1796032753335967000 0 client.concurrency.max{} 4
        1796032753335967000 0 client.concurrency.mean{} 3.81855623692917
        1796032753335967000 0 client.duration{} 0.8429747200000001
        1796032753335967000 0 client.e2e.max{} 0.418822458
        1796032753335967000 0 client.e2e.mean{} 0.41583682162499996
        1796032753335967000 0 client.e2e.min{} 0.412807183
        1796032753335967000 0 client.e2e.p50{} 0.41550279
        1796032753335967000 0 client.e2e.p90{} 0.4187786191
        1796032753335967000 0 client.e2e.p95{} 0.41880053855
        1796032753335967000 0 client.e2e.p99{} 0.41881807411
        1796032753335967000 0 client.e2e.std{} 0.002552298516343305
        1796032753335967000 0 client.itl.max{} 0.013087629
        1796032753335967000 0 client.itl.mean{} 0.010010792649193547
        1796032753335967000 0 client.itl.min{} 0.0062990699999999995
        1796032753335967000 0 client.itl.p50{} 0.010340275999999999
        1796032753335967000 0 client.itl.p90{} 0.010470057699999999
        1796032753335967000 0 client.itl.p95{} 0.010505573150000001
        1796032753335967000 0 client.itl.p99{} 0.01192616341
        1796032753335967000 0 client.itl.std{} 0.0006917892853966144
        1796032753335967000 0 client.throughput.output{} 303.0331291829369
        1796032753335967000 0 client.throughput.prompt{} 1175.401228345937
        1796032753335967000 0 client.throughput.requests{} 9.182822096452632
        1796032753335967000 0 client.throughput.total{} 1478.4343575288738
        1796032753335967000 0 client.tpot.max{} 0.010097315774193547
        1796032753335967000 0 client.tpot.mean{} 0.010010792649193547
        1796032753335967000 0 client.tpot.min{} 0.009899851741935483
        1796032753335967000 0 client.tpot.p50{} 0.010007152145161291
        1796032753335967000 0 client.tpot.p90{} 0.010089937796774194
        1796032753335967000 0 client.tpot.p95{} 0.010093626785483872
        1796032753335967000 0 client.tpot.p99{} 0.01009657797645161
        1796032753335967000 0 client.tpot.std{} 0.00006601408360030685
        1796032753335967000 0 client.ttft.max{} 0.106734934
        1796032753335967000 0 client.ttft.mean{} 0.10550224949999999
        1796032753335967000 0 client.ttft.min{} 0.10272406699999999
        1796032753335967000 0 client.ttft.p50{} 0.105758835
        1796032753335967000 0 client.ttft.p90{} 0.10666063740000001
        1796032753335967000 0 client.ttft.p95{} 0.1066977857
        1796032753335967000 0 client.ttft.p99{} 0.10672750434
        1796032753335967000 0 client.ttft.std{} 0.0011904393917449136
        runs=1 samples=41 issues=1
        ! note definitions profile_export_aiperf.json [] x1 `inter_token_latency` is (latency - ttft) / (output tokens - 1) per request and became `client.tpot`; it is brought from the tool's 33 output tokens to the server's 32 per request; `inter_chunk_latency`, one gap per delivered chunk, is `client.itl`; times became seconds
    "#]],
    );
}

#[test]
fn aiperf_requests() {
    check_file(
        "profile_export.jsonl",
        expect![[r#"
            source profile_export.jsonl aiperf_jsonl rows=99 unmapped=0
            run 0  |  |  |  | 
            1796032752492386242 client,9cdfdf5a-9b87-4b1e-acc4-60164807e969,,, -0.00140 - - - 0.10673 0.41702 0.41702 Some(128)/Some(32)
            1796032752495526362 client,2c3fd40c-543b-4eaa-8118-303204abb477,,, -0.00426 - - - 0.10663 0.41882 0.41882 Some(128)/Some(32)
            1796032752496153559 client,d21eacb5-e295-4558-b536-dc92428460ff,,, -0.00482 - - - 0.10607 0.41876 0.41876 Some(128)/Some(32)
            runs=1 requests=3 chunks=96 issues=2
            ! note definitions profile_export.jsonl [] x3 milliseconds became nanoseconds; a request was due when its credit was issued; gaps are those between delivered chunks; output tokens are the server's count, or that of AIPerf's tokenizer where the server tells none
            ! note token_counts_differ profile_export.jsonl [line 1] x3 AIPerf's tokenizer counts 33 output tokens, the server 32; the server's count is used
        "#]],
    );
}

#[test]
fn inference_perf_stage() {
    check_file(
        "stage_0_lifecycle_metrics.json",
        expect![[r#"
        source stage_0_lifecycle_metrics.json inference_perf_json rows=36 unmapped=0
        run 0  |  |  |  | 
        0 0 client.completed{} 8
        0 0 client.concurrency{} 4
        0 0 client.duration{} 1.335184259000016
        0 0 client.e2e.max{} 0.4348256759999458
        0 0 client.e2e.mean{} 0.4173352117500144
        0 0 client.e2e.min{} 0.41232644299998356
        0 0 client.e2e.p50{} 0.41420482550006454
        0 0 client.e2e.p90{} 0.42371680130008826
        0 0 client.e2e.p95{} 0.42927123865001704
        0 0 client.e2e.p99{} 0.43371478852996004
        0 0 client.errors{} 0
        0 0 client.schedule_slip.max{} 0.17470159630124726
        0 0 client.schedule_slip.mean{} 0.025620497853822144
        0 0 client.schedule_slip.min{} 0.00010333703949072515
        0 0 client.schedule_slip.p50{} 0.00038429015398833144
        0 0 client.schedule_slip.p90{} 0.06762236254280649
        0 0 client.schedule_slip.p95{} 0.1211619794220268
        0 0 client.schedule_slip.p99{} 0.16399367292540315
        0 0 client.throughput.output{} 197.72551857203766
        0 0 client.throughput.prompt{} 766.9353447642673
        0 0 client.throughput.requests{} 5.991682380970838
        0 0 client.throughput.total{} 964.6608633363049
        0 0 client.tpot.max{} 0.010094232838707373
        0 0 client.tpot.mean{} 0.010027908975806374
        0 0 client.tpot.min{} 0.009793319129035045
        0 0 client.tpot.p50{} 0.01001417658064398
        0 0 client.tpot.p90{} 0.010090562399999168
        0 0 client.tpot.p95{} 0.010092397619353271
        0 0 client.tpot.p99{} 0.010093865794836553
        0 0 client.ttft.max{} 0.13024775999997473
        0 0 client.ttft.mean{} 0.10647003350001683
        0 0 client.ttft.min{} 0.10156014700010019
        0 0 client.ttft.p50{} 0.1018657304999806
        0 0 client.ttft.p90{} 0.11459419130005699
        0 0 client.ttft.p95{} 0.12242097565001585
        0 0 client.ttft.p99{} 0.12868240312998294
        runs=1 samples=36 issues=1
        ! note definitions stage_0_lifecycle_metrics.json [] x1 `normalized_time_per_output_token` counts the time to the first token and is left out; the mean of `client.tpot` is (e2e - ttft) / (output tokens - 1) with the server's 32 tokens; its percentiles end at the last chunk and are brought from the tool's 33 tokens to that count; `inter_token_latency` is left out: 8 requests have other token counts than the server, so its gaps are not those of chunks; no dates: figures stand at time 0
    "#]],
    );
}

#[test]
fn inference_perf_summary() {
    check_file(
        "summary_lifecycle_metrics.json",
        expect![[r#"
        source summary_lifecycle_metrics.json inference_perf_json rows=35 unmapped=0
        run 0  |  |  |  | 
        0 0 client.completed{} 8
        0 0 client.duration{} 1.335184259000016
        0 0 client.e2e.max{} 0.4348256759999458
        0 0 client.e2e.mean{} 0.4173352117500144
        0 0 client.e2e.min{} 0.41232644299998356
        0 0 client.e2e.p50{} 0.41420482550006454
        0 0 client.e2e.p90{} 0.42371680130008826
        0 0 client.e2e.p95{} 0.42927123865001704
        0 0 client.e2e.p99{} 0.43371478852996004
        0 0 client.errors{} 0
        0 0 client.schedule_slip.max{} 0.17470159630124726
        0 0 client.schedule_slip.mean{} 0.025620497853822144
        0 0 client.schedule_slip.min{} 0.00010333703949072515
        0 0 client.schedule_slip.p50{} 0.00038429015398833144
        0 0 client.schedule_slip.p90{} 0.06762236254280649
        0 0 client.schedule_slip.p95{} 0.1211619794220268
        0 0 client.schedule_slip.p99{} 0.16399367292540315
        0 0 client.throughput.output{} 197.72551857203766
        0 0 client.throughput.prompt{} 766.9353447642673
        0 0 client.throughput.requests{} 5.991682380970838
        0 0 client.throughput.total{} 964.6608633363049
        0 0 client.tpot.max{} 0.010094232838707373
        0 0 client.tpot.mean{} 0.010027908975806374
        0 0 client.tpot.min{} 0.009793319129035045
        0 0 client.tpot.p50{} 0.01001417658064398
        0 0 client.tpot.p90{} 0.010090562399999168
        0 0 client.tpot.p95{} 0.010092397619353271
        0 0 client.tpot.p99{} 0.010093865794836553
        0 0 client.ttft.max{} 0.13024775999997473
        0 0 client.ttft.mean{} 0.10647003350001683
        0 0 client.ttft.min{} 0.10156014700010019
        0 0 client.ttft.p50{} 0.1018657304999806
        0 0 client.ttft.p90{} 0.11459419130005699
        0 0 client.ttft.p95{} 0.12242097565001585
        0 0 client.ttft.p99{} 0.12868240312998294
        runs=1 samples=35 issues=1
        ! note definitions summary_lifecycle_metrics.json [] x1 `normalized_time_per_output_token` counts the time to the first token and is left out; the mean of `client.tpot` is (e2e - ttft) / (output tokens - 1) with the server's 32 tokens; its percentiles end at the last chunk and are brought from the tool's 33 tokens to that count; `inter_token_latency` is left out: 8 requests have other token counts than the server, so its gaps are not those of chunks; no dates: figures stand at time 0
    "#]],
    );
}

#[test]
fn inference_perf_requests() {
    check_file(
        "per_request_lifecycle_metrics.json",
        expect![[r#"
            source per_request_lifecycle_metrics.json inference_perf_json rows=99 unmapped=0
            run 0  |  |  |  | 
            1315362074052 client,0,,, - - - - 0.13025 0.43384 0.43483 Some(128)/Some(32)
            1315602376075 client,1,,, - - - - 0.10789 0.41826 0.41896 Some(128)/Some(32)
            1315631229566 client,2,,, - - - - 0.10156 0.41262 0.41322 Some(128)/Some(32)
            runs=1 requests=3 chunks=96 issues=3
            ! note definitions per_request_lifecycle_metrics.json [] x1 seconds became nanoseconds; the first token is the first chunk, gaps are those between chunks (`chunk_times`), and `output_token_times`, one per token of the chunks tokenized again, serves only where a file has no chunk times
            ! note requests_without_date per_request_lifecycle_metrics.json [] x3 expected times since the epoch, found those of a monotonic clock; requests stand at these times
            ! note token_counts_differ per_request_lifecycle_metrics.json [request 0] x3 the tool's tokenizer counts 33 output tokens, the server 32; the server's count is used
        "#]],
    );
}

#[test]
fn inference_perf_validation() {
    check_file(
        "validation.json",
        expect![[r#"
        source validation.json inference_perf_json rows=0 unmapped=0
        run 0  |  |  |  | 
        runs=1 issues=2
        ! note tool_warning validation.json [stage_0_lifecycle_metrics.json per_stage.token_mismatches] x1 `inference-perf` found with its own report: 8 request(s) where the client-side token count disagrees with the server-reported completion_tokens
        ! note tool_warning validation.json [summary_lifecycle_metrics.json summary.token_mismatches] x1 `inference-perf` found with its own report: 8 request(s) where the client-side token count disagrees with the server-reported completion_tokens
    "#]],
    );
}

#[test]
fn genai_perf_made() {
    check_file(
        "profile_export_genai_perf.json",
        expect![[r#"
        source profile_export_genai_perf.json genai_perf_json rows=28 unmapped=0
        run 0  |  |  |  | 
        0 0 client.completed{} 8
        0 0 client.concurrency{} 4
        0 0 client.e2e.max{} 0.42
        0 0 client.e2e.mean{} 0.41500000000000004
        0 0 client.e2e.min{} 0.41000000000000003
        0 0 client.e2e.p50{} 0.41500000000000004
        0 0 client.e2e.p90{} 0.419
        0 0 client.e2e.p95{} 0.4195
        0 0 client.e2e.p99{} 0.4199
        0 0 client.e2e.std{} 0.003
        0 0 client.throughput.output{} 304
        0 0 client.throughput.requests{} 9.5
        0 0 client.tpot.max{} 0.0105
        0 0 client.tpot.mean{} 0.01
        0 0 client.tpot.min{} 0.0095
        0 0 client.tpot.p50{} 0.01
        0 0 client.tpot.p90{} 0.010400000000000001
        0 0 client.tpot.p95{} 0.01045
        0 0 client.tpot.p99{} 0.010490000000000001
        0 0 client.tpot.std{} 0.0003
        0 0 client.ttft.max{} 0.11
        0 0 client.ttft.mean{} 0.105
        0 0 client.ttft.min{} 0.1
        0 0 client.ttft.p50{} 0.105
        0 0 client.ttft.p90{} 0.109
        0 0 client.ttft.p95{} 0.1095
        0 0 client.ttft.p99{} 0.10990000000000001
        0 0 client.ttft.std{} 0.003
        runs=1 samples=28 issues=1
        ! note definitions profile_export_genai_perf.json [] x1 `inter_token_latency` is (latency - ttft) / (output tokens - 1) per request and became `client.tpot`; output tokens are counted by the tool's own tokenizer, which the server may not share; the file tells no gaps between chunks, so there is no `client.itl`; times became seconds
    "#]],
    );
}

#[test]
fn perf_analyzer_made() {
    check_file(
        "perf_analyzer_profile_export.json",
        expect![[r#"
        source perf_analyzer_profile_export.json perf_analyzer_json rows=20 unmapped=0
        run 0  |  |  | client.concurrency | 
        point 0.0 1
        point 0.1 2
        1796032752000000000 client,0,,, - - - - 0.10000 0.13000 0.13000 Some(128)/Some(4)
        1796032752200000000 client,1,,, - - - - 0.10000 0.13000 0.13000 Some(128)/Some(4)
        1796032757000000000 client,1/0,,, - - - - 0.10000 0.16000 0.16000 Some(128)/Some(4)
        1796032757001000000 client,1/1,,, - - - - 0.10000 0.16000 0.16000 Some(128)/Some(4)
        runs=1 points=2 requests=4 chunks=16 issues=1
        ! note definitions perf_analyzer_profile_export.json [] x1 nanoseconds; first token and gaps are those of responses that carry a token; output tokens are the server's count, where a response tells it
    "#]],
    );
}

/// The figure of a signal, at a point or of the whole run.
fn figure(capture: &Capture, signal: &str, point_idx: i32) -> f64 {
    let mut rows = capture.tables.samples.rows().filter(|row| capture.text(row.signal) == signal && row.point_idx == point_idx);
    rows.next().unwrap_or_else(|| panic!("no {signal} at {point_idx}")).value
}

/// Time per output token by our definition, from the request rows.
fn tpot_of_rows(capture: &Capture) -> f64 {
    let each = capture.tables.requests.rows().map(|row| {
        let (first, done) = row.t_first_content_ns.zip(row.t_done_ns).unwrap();
        (done - first) as f64 / 1e9 / (row.tokens_out.unwrap() - 1) as f64
    });
    let each: Vec<f64> = each.collect();
    each.iter().sum::<f64>() / each.len() as f64
}

/// Two requests: first token after 0.1 s and 0.3 s, end after 1.1 s and 2.3 s, 11 tokens by the server's count. The last token
/// comes 10 ms before the end. The tool's own tokenizer counts 21. So the time per output token is 0.1 s and 0.2 s, mean 0.15 s.
const TPOT_S: f64 = 0.15;

fn sglang(itls: &str) -> String {
    format!(
        r#"{{"backend": "sglang", "sharegpt_output_len": null, "random_input_len": 8, "completed": 2, "mean_tpot_ms": 150.0, "total_output_tokens": 22,
        "total_output_tokens_retokenized": 42, "input_lens": [8, 8], "output_lens": [11, 11], "ttfts": [0.1, 0.3], "latencies": [1.1, 2.3], "itls": {itls}}}"#
    )
}

fn guidellm_text() -> String {
    let request = |start: f64, ttft: f64, e2e: f64| {
        format!(
            r#"{{"request_id": "r{start}", "request_start_time": {start}, "request_end_time": {}, "output_tokens": 11, "prompt_tokens": 8,
            "time_per_output_token_ms": {}, "inter_token_latency_ms": {}, "info": {{"timings": {{"first_token_iteration": {}, "last_token_iteration": {}}}}}}}"#,
            start + e2e,
            e2e / 11.0 * 1e3,
            (e2e - 0.01 - ttft) / 10.0 * 1e3,
            start + ttft,
            start + e2e - 0.01,
        )
    };
    format!(
        r#"{{"metadata": {{"guidellm_version": "0.8.1"}}, "benchmarks": [{{"metrics": {{"request_totals": {{"successful": 2}},
        "time_per_output_token_ms": {{"successful": {{"mean": 154.5}}}}, "inter_token_latency_ms": {{"successful": {{"mean": 149.0}}}}}},
        "requests": {{"successful": [{}, {}]}}}}]}}"#,
        request(1000.0, 0.1, 1.1),
        request(1001.0, 0.3, 2.3),
    )
}

fn aiperf_text() -> String {
    // (e2e - ttft) / (21 - 1): the tool's count.
    r#"{"aiperf_version": "0.13.0", "request_latency": {"unit": "ms", "avg": 1700}, "time_to_first_token": {"unit": "ms", "avg": 200},
    "inter_token_latency": {"unit": "ms", "avg": 75}, "output_sequence_length": {"unit": "tokens", "min": 21, "max": 21, "avg": 21},
    "usage_completion_tokens": {"unit": "tokens", "min": 11, "max": 11, "avg": 11}}"#
        .to_string()
}

fn inference_perf_text() -> String {
    // (last chunk - first chunk) / (21 - 1), seconds.
    r#"{"load_summary": {"count": 2, "send_duration": 1, "requested_rate": 2.0}, "successes": {"count": 2, "latency": {"request_latency": {"mean": 1.7},
    "time_to_first_token": {"mean": 0.2}, "time_per_output_token": {"mean": 0.0745}, "normalized_time_per_output_token": {"mean": 0.08}},
    "output_len": {"min": 21, "max": 21}, "output_tokens": {"min": 11, "max": 11}}}"#
        .to_string()
}

#[test]
fn one_run_seen_by_every_tool_has_one_time_per_output_token() {
    let gaps = |sum: f64| format!("[{}]", vec![format!("{}", sum / 10.0); 10].join(", "));
    let sglang = import_text("out.jsonl", &sglang(&format!("[{}, {}]", gaps(1.0), gaps(2.0))));
    let summaries = [
        ("sglang", &sglang),
        ("guidellm", &import_text("benchmarks.json", &guidellm_text())),
        ("aiperf", &import_text("profile_export_aiperf.json", &aiperf_text())),
        ("inference-perf", &import_text("stage_0.json", &inference_perf_text())),
    ];
    for (tool, capture) in summaries {
        let found = figure(capture, "client.tpot.mean", -1);
        assert!((found - TPOT_S).abs() < 1e-9, "{tool}: {found}");
    }
    let line = |start: i64, ttft: f64, e2e_ns: i64| {
        format!(
            r#"{{"metadata": {{"session_num": {start}, "request_start_ns": {start}, "request_end_ns": {}, "benchmark_phase": "profiling"}}, "metrics": {{"time_to_first_token": {{"value": {ttft}, "unit": "ms"}}, "output_sequence_length": {{"value": 21}}, "usage_completion_tokens": {{"value": 11}}}}}}"#,
            start + e2e_ns
        )
    };
    let aiperf = format!("{}\n{}\n", line(1_000, 100.0, 1_100_000_000), line(2_000, 300.0, 2_300_000_000));
    let record = |start: f64, ttft: f64, e2e: f64| {
        format!(
            r#"{{"start_time": {start}, "end_time": {}, "request": "", "response": "", "info": {{"response_metrics": {{"output_tokens": 21, "server_usage": {{"completion_tokens": 11}}, "chunk_times": [{}, {}]}}}}, "error": null}}"#,
            start + e2e,
            start + ttft,
            start + e2e - 0.01
        )
    };
    let inference_perf = format!("[{}, {}]", record(10.0, 0.1, 1.1), record(20.0, 0.3, 2.3));
    let rows = vec![
        ("sglang", sglang),
        ("guidellm", import_text("benchmarks.json", &guidellm_text())),
        ("aiperf", import_text("profile_export.jsonl", &aiperf)),
        ("inference-perf", import_text("per_request.json", &inference_perf)),
    ];
    for (tool, capture) in &rows {
        let found = tpot_of_rows(capture);
        assert!((found - TPOT_S).abs() < 1e-9, "{tool}: {found}");
    }
}

#[test]
fn the_runs_of_one_file_and_undated_files_of_different_loads_are_a_sweep() {
    let run = |streams: u32, tpot: f64| {
        format!(
            r#"{{"backend": "sglang", "sharegpt_output_len": null, "random_input_len": 8, "max_concurrency": {streams}, "completed": 2, "mean_tpot_ms": {tpot}}}"#
        )
    };
    let one = import_text("out.jsonl", &format!("{}\n{}\n", run(8, 20.0), run(1, 10.0)));
    assert_eq!((figure(&one, "client.tpot.mean", 0), figure(&one, "client.tpot.mean", 1)), (0.01, 0.02));
    assert_eq!(one.tables.points.varied_value, [1.0, 8.0]);
    let folder = tempfile::tempdir().unwrap();
    for (name, streams, tpot) in [("c8.jsonl", 8, 20.0), ("c1.jsonl", 1, 10.0)] {
        std::fs::write(folder.path().join(name), run(streams, tpot)).unwrap();
    }
    let two = import(&[folder.path().to_path_buf()]);
    assert_eq!(two.tables.points.varied_value, [1.0, 8.0]);
    assert_eq!((figure(&two, "client.tpot.mean", 0), figure(&two, "client.tpot.mean", 1)), (0.01, 0.02));
}

#[test]
fn requests_beside_the_summaries_of_a_sweep_stand_at_their_points() {
    let folder = tempfile::tempdir().unwrap();
    let summary = std::fs::read_to_string(data("load-results/profile_export_aiperf.json")).unwrap();
    let requests = std::fs::read_to_string(data("load-results/profile_export.jsonl")).unwrap();
    // The second run is the first one ten minutes later, with two streams.
    let later = summary.replace("T09:59", "T10:09").replace("\"concurrency\":4", "\"concurrency\":2");
    let later_requests = requests.replace("17960327", "17960333");
    for (name, summary, requests) in [("c4", &summary, &requests), ("c2", &later, &later_requests)] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("profile_export_aiperf.json"), summary).unwrap();
        std::fs::write(folder.path().join(name).join("profile_export.jsonl"), requests).unwrap();
    }
    let capture = import(&[folder.path().to_path_buf()]);
    assert_eq!(capture.tables.points.varied_value, [2.0, 4.0]);
    let placed: Vec<(i64, i32)> = capture.tables.requests.rows().map(|row| (row.t_sent_ns / 600_000_000_000, row.point_idx)).collect();
    assert_eq!(placed, [(2_993_387, 1), (2_993_387, 1), (2_993_387, 1), (2_993_388, 0), (2_993_388, 0), (2_993_388, 0)]);
}

#[test]
fn requests_beyond_the_limit_are_counted_and_left_out() {
    let options = Options { max_requests: 2, ..Options::default() };
    let bench = r#"{"model_id": "m", "completed": 5, "request_throughput": 1, "total_input_tokens": 5, "ttfts": [0.1, 0.1, 0.1, 0.1, 0.1],
        "itls": [[0.1], [0.1], [0.1], [0.1], [0.1]]}"#;
    let line = std::fs::read_to_string(data("load-results/profile_export.jsonl")).unwrap();
    let client = std::fs::read_to_string(data("client.jsonl")).unwrap();
    let guidellm = std::fs::read_to_string(data("load-results/guidellm-benchmarks.json")).unwrap();
    for (name, text, expected) in [("bench.json", bench, 3), ("p.jsonl", &line, 1), ("client.jsonl", &client, 1), ("g.json", &guidellm, 6)]
    {
        let capture = ingest::read_bytes(name, text.as_bytes(), &options);
        assert_eq!(capture.tables.requests.t_sent_ns.len(), 2, "{name}");
        let told = capture.tables.issues.rows().find(|row| capture.text(row.code) == "requests_left_out").map(|row| row.count);
        assert_eq!(told, Some(expected), "{name}");
    }
}
