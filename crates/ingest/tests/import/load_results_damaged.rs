//! Damaged result files of load generators: figures that cannot be, texts that end early, requests that go backward.

use std::fs;

use expect_test::{Expect, expect};
use ingest::Options;

use crate::shown::{check, data};

fn check_text(name: &str, text: &str, expected: Expect) {
    check(&ingest::read_bytes(name, text.as_bytes(), &Options::default()), &["sources", "samples", "requests"], expected);
}

fn sample(name: &str) -> String {
    fs::read_to_string(data(&format!("load-results/{name}"))).unwrap()
}

#[test]
fn figures_that_cannot_be_are_issues() {
    check_text(
        "bench.json",
        r#"{"model_id": "m", "completed": -3, "total_input_tokens": 5, "request_throughput": 1e300, "duration": -1, "max_concurrency": -2, "request_rate": "inf",
        "mean_ttft_ms": NaN, "p99_ttft_ms": 1e12, "mean_tpot_ms": "slow", "median_tpot_ms": null, "mean_itl_ms": 12.5, "p99_itl_ms": -Infinity,
        "output_throughput": 100, "max_output_tokens_per_s": 50, "spec_decode_acceptance_rate": 140}"#,
        expect![[r#"
            source bench.json vllm_bench_json rows=2 unmapped=0
            0 0 client.itl.mean{} 0.0125
            0 0 client.throughput.output{} 100
            ! note peak_counts_chunks bench.json [max_output_tokens_per_s] x1 expected a peak of output tokens per second above the mean, found a lower one: it counts chunks of several tokens; it is left out
            ! warning impossible_figure bench.json [completed] x1 expected a number from 0 to 1e12 (count), found -3.0; the figure is left out
            ! warning impossible_figure bench.json [duration] x1 expected a number from 0 to 1e6 (s), found -1.0; the figure is left out
            ! warning impossible_figure bench.json [max_concurrency] x1 expected a number from 0 to 1e12 (request), found -2.0; the figure is left out
            ! warning impossible_figure bench.json [mean_tpot_ms] x1 expected a number from 0 to 1e6 (s), found no finite number; the figure is left out
            ! warning impossible_figure bench.json [mean_ttft_ms] x1 expected a number from 0 to 1e6 (s), found no finite number; the figure is left out
            ! warning impossible_figure bench.json [p99_itl_ms] x1 expected a number from 0 to 1e6 (s), found no finite number; the figure is left out
            ! warning impossible_figure bench.json [p99_ttft_ms] x1 expected a number from 0 to 1e6 (s), found 1000000000.0; the figure is left out
            ! warning impossible_figure bench.json [request_throughput] x1 expected a number from 0 to 1e12 (request/s), found 1e300; the figure is left out
            ! warning impossible_figure bench.json [spec_decode_acceptance_rate] x1 expected a number from 0 to 1e0 (ratio), found 1.4000000000000001; the figure is left out
        "#]],
    );
    let genai =
        sample("profile_export_genai_perf.json").replace("\"avg\": 415.0", "\"avg\": -415.0").replace("\"avg\": 9.5", "\"avg\": NaN");
    check_text(
        "genai.json",
        &genai,
        expect![[r#"
            source genai.json genai_perf_json rows=26 unmapped=0
            0 0 client.completed{} 8
            0 0 client.concurrency{} 4
            0 0 client.e2e.max{} 0.42
            0 0 client.e2e.min{} 0.41000000000000003
            0 0 client.e2e.p50{} 0.41500000000000004
            0 0 client.e2e.p90{} 0.419
            0 0 client.e2e.p95{} 0.4195
            0 0 client.e2e.p99{} 0.4199
            0 0 client.e2e.std{} 0.003
            0 0 client.throughput.output{} 304
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
            ! note definitions genai.json [] x1 `inter_token_latency` is (latency - ttft) / (output tokens - 1) per request and became `client.tpot`; output tokens are counted by the tool's own tokenizer, which the server may not share; the file tells no gaps between chunks, so there is no `client.itl`; times became seconds
            ! warning impossible_figure genai.json [request_latency.mean] x1 expected a number from 0 to 1e6 (s), found -0.41500000000000004; the figure is left out
            ! warning impossible_figure genai.json [request_throughput] x1 expected a number from 0 to 1e12 (request/s), found no finite number; the figure is left out
        "#]],
    );
}

#[test]
fn a_file_that_ends_early_keeps_what_came_before() {
    let guidellm = sample("guidellm-benchmarks.json");
    let third = guidellm.match_indices("\"generative_request_stats\"").nth(2).unwrap().0;
    check_text(
        "guidellm.json",
        &guidellm[..third + 200],
        expect![[r#"
            source guidellm.json guidellm_json rows=31 unmapped=0 damaged
            0 0 client.completed{} 8
            0 0 client.concurrency{} 4
            0 0 client.concurrency.mean{} 3.856355451171077
            0 0 client.e2e.max{} 0.42003297805786133
            0 0 client.e2e.mean{} 0.4175029695034027
            0 0 client.e2e.min{} 0.4127798080444336
            0 0 client.e2e.p50{} 0.4171161651611328
            0 0 client.e2e.p90{} 0.42003297805786133
            0 0 client.e2e.p95{} 0.42003297805786133
            0 0 client.e2e.p99{} 0.42003297805786133
            0 0 client.e2e.std{} 0.0024706843493916453
            0 0 client.errors{} 0
            0 0 client.throughput.output{} 295.57484245981806
            0 0 client.throughput.prompt{} 1182.2993698392722
            0 0 client.throughput.requests{} 9.236713826869314
            0 0 client.throughput.total{} 1477.87421229909
            0 0 client.tpot.mean{} 0.01001683870967742
            0 0 client.tpot.p50{} 0.01001683870967742
            0 0 client.tpot.p90{} 0.01011992
            0 0 client.tpot.p95{} 0.010132805161290323
            0 0 client.tpot.p99{} 0.01014311329032258
            0 0 client.ttft.max{} 0.10875487327575684
            0 0 client.ttft.mean{} 0.10570523142814636
            0 0 client.ttft.min{} 0.1025538444519043
            0 0 client.ttft.p50{} 0.10625219345092773
            0 0 client.ttft.p90{} 0.10875487327575684
            0 0 client.ttft.p95{} 0.10875487327575684
            0 0 client.ttft.p99{} 0.10875487327575684
            0 0 client.ttft.std{} 0.0023352672102889592
            1796032677268922600 client,174574e6-d2f8-4427-8c17-5ee6c2fe3233,,, -0.00590 - - - 0.10625 0.41235 0.41278 Some(128)/Some(32)
            1796032677273321400 client,8e19823a-fad9-4831-9fd1-de80237c5c1a,,, -0.01030 - - - 0.10260 0.41286 0.41712 Some(128)/Some(32)
            ! note definitions guidellm.json [] x1 `time_per_output_token_ms` counts the time to the first token and is left out; `client.tpot` is computed from 2 requests as (end - first token) / (output tokens - 1), a mean over requests; `inter_token_latency_ms`, a mean up to the last token that is weighted by tokens, is left out; milliseconds became seconds; tokens are those the server reported, where it did
            ! warning damaged_json guidellm.json [byte 12946] x1 expected a value, found the end of the text; what was read before it is kept
        "#]],
    );
    let records = sample("per_request_lifecycle_metrics.json");
    check_text(
        "per_request.json",
        &records[..records.len() * 2 / 3],
        expect![[r#"
            source per_request.json inference_perf_json rows=33 unmapped=0 damaged
            1315362074052 client,0,,, - - - - 0.13025 0.43384 0.43483 Some(128)/Some(32)
            ! note definitions per_request.json [] x1 seconds became nanoseconds; the first token is the first chunk, gaps are those between chunks (`chunk_times`), and `output_token_times`, one per token of the chunks tokenized again, serves only where a file has no chunk times
            ! note requests_without_date per_request.json [] x1 expected times since the epoch, found those of a monotonic clock; requests stand at these times
            ! note token_counts_differ per_request.json [request 0] x1 the tool's tokenizer counts 33 output tokens, the server 32; the server's count is used
            ! warning damaged_json per_request.json [byte 3780] x1 expected `:`, found the end of the text; what was read before it is kept
        "#]],
    );
    let stage = sample("stage_0_lifecycle_metrics.json");
    check_text(
        "stage.json",
        &stage[..stage.find("\"inter_token_latency\"").unwrap()],
        expect![[r#"
        source stage.json inference_perf_json rows=31 unmapped=0 damaged
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
        0 0 client.schedule_slip.max{} 0.17470159630124726
        0 0 client.schedule_slip.mean{} 0.025620497853822144
        0 0 client.schedule_slip.min{} 0.00010333703949072515
        0 0 client.schedule_slip.p50{} 0.00038429015398833144
        0 0 client.schedule_slip.p90{} 0.06762236254280649
        0 0 client.schedule_slip.p95{} 0.1211619794220268
        0 0 client.schedule_slip.p99{} 0.16399367292540315
        0 0 client.tpot.max{} 0.009778788062497767
        0 0 client.tpot.mean{} 0.009691229999999607
        0 0 client.tpot.min{} 0.0094872779062527
        0 0 client.tpot.p50{} 0.009701233562498857
        0 0 client.tpot.p90{} 0.009775232324999194
        0 0 client.tpot.p95{} 0.009777010193748482
        0 0 client.tpot.p99{} 0.00977843248874791
        0 0 client.ttft.max{} 0.13024775999997473
        0 0 client.ttft.mean{} 0.10647003350001683
        0 0 client.ttft.min{} 0.10156014700010019
        0 0 client.ttft.p50{} 0.1018657304999806
        0 0 client.ttft.p90{} 0.11459419130005699
        0 0 client.ttft.p95{} 0.12242097565001585
        0 0 client.ttft.p99{} 0.12868240312998294
        ! note definitions stage.json [] x1 `normalized_time_per_output_token` counts the time to the first token and is left out; `time_per_output_token` ends at the last chunk and divides by the tool's count of output tokens less one; requests differ in tokens, so it is kept as it is; `inter_token_latency` is one gap per token of the tool's own count; no dates: figures stand at time 0
        ! warning damaged_json stage.json [byte 2219] x1 expected a string, found the end of the text; what was read before it is kept
    "#]],
    );
    let aiperf = sample("profile_export_aiperf.json");
    check_text(
        "aiperf.json",
        &aiperf[..aiperf.find("\"output_sequence_length\"").unwrap() + 40],
        expect![[r#"
        source aiperf.json aiperf_json rows=27 unmapped=0 damaged
        0 0 client.completed{} 8
        0 0 client.e2e.max{} 0.418822458
        0 0 client.e2e.mean{} 0.41583682162499996
        0 0 client.e2e.min{} 0.412807183
        0 0 client.e2e.p50{} 0.41550279
        0 0 client.e2e.p90{} 0.4187786191
        0 0 client.e2e.p95{} 0.41880053855
        0 0 client.e2e.p99{} 0.41881807411
        0 0 client.e2e.std{} 0.002552298516343305
        0 0 client.throughput.output{} 303.0331291829369
        0 0 client.throughput.requests{} 9.182822096452632
        0 0 client.tpot.max{} 0.009781774656249999
        0 0 client.tpot.mean{} 0.00969795537890625
        0 0 client.tpot.min{} 0.009590481375
        0 0 client.tpot.p50{} 0.009694428640625
        0 0 client.tpot.p90{} 0.009774627240625
        0 0 client.tpot.p95{} 0.009778200948437501
        0 0 client.tpot.p99{} 0.009781059914687498
        0 0 client.tpot.std{} 0.00006395114348779726
        0 0 client.ttft.max{} 0.106734934
        0 0 client.ttft.mean{} 0.10550224949999999
        0 0 client.ttft.min{} 0.10272406699999999
        0 0 client.ttft.p50{} 0.105758835
        0 0 client.ttft.p90{} 0.10666063740000001
        0 0 client.ttft.p95{} 0.1066977857
        0 0 client.ttft.p99{} 0.10672750434
        0 0 client.ttft.std{} 0.0011904393917449136
        ! note definitions aiperf.json [] x1 `inter_token_latency` is (latency - ttft) / (output tokens - 1) per request and became `client.tpot`; output tokens are counted by the tool's own tokenizer, which the server may not share; the file tells no gaps between chunks, so there is no `client.itl`; times became seconds
        ! warning damaged_json aiperf.json [byte 1323] x1 expected the end of a string, found the end of the text; what was read before it is kept
    "#]],
    );
    let experiments = sample("perf_analyzer_profile_export.json");
    check_text(
        "experiments.json",
        &experiments[..experiments.len() * 2 / 3],
        expect![[r#"
        source experiments.json perf_analyzer_json rows=10 unmapped=0 damaged
        1796032752000000000 client,0,,, - - - - 0.10000 0.13000 0.13000 Some(128)/Some(4)
        1796032752200000000 client,1,,, - - - - 0.10000 0.13000 0.13000 Some(128)/Some(4)
        ! note definitions experiments.json [] x1 nanoseconds; first token and gaps are those of responses that carry a token; output tokens are the server's count, where a response tells it
        ! warning damaged_json experiments.json [byte 2317] x1 expected the end of a string, found the end of the text; what was read before it is kept
    "#]],
    );
    let sglang = sample("sglang-bench.jsonl");
    check_text(
        "sglang.jsonl",
        &format!("{sglang}{}", &sglang[..700]),
        expect![[r#"
            source sglang.jsonl sglang_bench_jsonl rows=44 unmapped=0 damaged
            0 0.0 client.completed{} 32
            0 0.0 client.concurrency{} 16
            0 0.0 client.concurrency.max{} 32
            0 0.0 client.concurrency.mean{} 15.904609928480232
            0 0.0 client.duration{} 2.964858318
            0 0.0 client.e2e.mean{} 1.47359109503125
            0 0.0 client.e2e.p50{} 1.4735599455
            0 0.0 client.e2e.p90{} 1.4767781432
            0 0.0 client.e2e.p95{} 1.4768000324000001
            0 0.0 client.e2e.p99{} 1.47685003412
            0 0.0 client.e2e.std{} 0.0030453279897492795
            0 0.0 client.itl.mean{} 0.020032454001984105
            0 0.0 client.itl.p50{} 0.019890048
            0 0.0 client.itl.p90{} 0.031865056
            0 0.0 client.itl.p95{} 0.03624721525
            0 0.0 client.itl.p99{} 0.04824440375
            0 0.0 client.itl.std{} 0.009911681999969085
            0 0.0 client.throughput.output{} 690.7581342306827
            0 0.0 client.throughput.output.max{} 768
            0 0.0 client.throughput.prompt{} 1381.5162684613654
            0 0.0 client.throughput.requests{} 10.793095847354417
            0 0.0 client.throughput.total{} 2072.2744026920477
            0 0.0 client.tpot.mean{} 0.02003248250694445
            0 0.0 client.tpot.p50{} 0.0200285775
            0 0.0 client.tpot.p90{} 0.02006336546031746
            0 0.0 client.tpot.p95{} 0.02006348532063492
            0 0.0 client.tpot.p99{} 0.020065017231746033
            0 0.0 client.tpot.std{} 0.000022228492695945607
            0 0.0 client.ttft.mean{} 0.21154469709375007
            0 0.0 client.ttft.p50{} 0.2117038855
            0 0.0 client.ttft.p90{} 0.21597717230000002
            0 0.0 client.ttft.p95{} 0.215979079
            0 0.0 client.ttft.p99{} 0.21602361806000003
            0 0.0 client.ttft.std{} 0.004412298926136186
            0 0.1 client.completed{} 32
            0 0.1 client.concurrency{} 16
            0 0.1 client.duration{} 2.964858318
            0 0.1 client.e2e.mean{} 1.47359109503125
            0 0.1 client.e2e.p50{} 1.4735599455
            0 0.1 client.e2e.std{} 0.0030453279897492795
            0 0.1 client.throughput.output{} 690.7581342306827
            0 0.1 client.throughput.prompt{} 1381.5162684613654
            0 0.1 client.throughput.requests{} 10.793095847354417
            0 0.1 client.throughput.total{} 2072.2744026920477
            ! note definitions sglang.jsonl [] x2 milliseconds became seconds; `tpot` is (latency - ttft) / (output tokens - 1) as here; `itl` is one gap per delivered chunk, whatever tokens it holds (SGLang's native API: spread over them); output tokens are the server's count, the client's count (`retokenized`) is left out; the file says no date, so its figures stand at time 0
            ! warning damaged_json sglang.jsonl [byte 2201] x1 expected a string, found the end of the text; what was read before it is kept
        "#]],
    );
}

#[test]
fn requests_that_go_backward_are_left_out() {
    let lines = sample("profile_export.jsonl");
    let backward = lines.replacen("\"request_end_ns\":1796032752914913390", "\"request_end_ns\":1", 1);
    check_text(
        "p.jsonl",
        &format!("{backward}{{\"metadata\": {{\"benchmark_phase\": \"profiling\"}}, \"metrics\": {{}}}}\n{{oops\n"),
        expect![[r#"
            source p.jsonl aiperf_jsonl rows=66 unmapped=0 damaged
            1796032752492386242 client,9cdfdf5a-9b87-4b1e-acc4-60164807e969,,, -0.00140 - - - 0.10673 0.41702 0.41702 Some(128)/Some(32)
            1796032752495526362 client,2c3fd40c-543b-4eaa-8118-303204abb477,,, -0.00426 - - - 0.10663 0.41882 0.41882 Some(128)/Some(32)
            ! note definitions p.jsonl [] x3 milliseconds became nanoseconds; a request was due when its credit was issued; gaps are those between delivered chunks; output tokens are the server's count, or that of AIPerf's tokenizer where the server tells none
            ! note token_counts_differ p.jsonl [line 1] x3 AIPerf's tokenizer counts 33 output tokens, the server 32; the server's count is used
            ! warning damaged_json p.jsonl [line 5, byte 2] x1 expected a string, found something else; the line is left out
            ! warning line_incomplete p.jsonl [line 4] x1 expected the keys of this format, found a line without the times it needs; the line is left out
            ! warning negative_time p.jsonl [line 1] x1 expected times of zero or more, found something else; the request is left out
        "#]],
    );
}

#[test]
fn no_prefix_of_a_sample_panics_and_each_tells_its_loss() {
    for file in fs::read_dir(data("load-results")).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let whole = ingest::read_bytes("whole", &bytes, &Options::default());
        let format = whole.manifest.sources[0].format.clone();
        let (_, own) = ingest::fuzz::ALL.iter().find(|(name, _)| **name == format).unwrap();
        // Every prefix of the start, where the keys are, then a spread of the rest.
        let stride = bytes.len() / 150 + 1;
        for end in (0..bytes.len().min(200)).chain((200..bytes.len()).step_by(stride)) {
            ingest::fuzz::any(&bytes[..end]);
            own(&bytes[..end]);
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let cut = ingest::read_bytes(&name, &bytes[..bytes.len() * 9 / 10], &Options::default());
        assert!(cut.manifest.sources[0].damaged, "{name} is cut and does not say so");
    }
}
