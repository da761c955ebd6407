//! Nothing secret and nothing a user wrote enters a capture, by any source.

use std::fs;

use capture::Capture;
use ingest::{Options, Scrape};

use crate::shown::{data, import, import_text};

/// What must not be found.
const SECRETS: [&str; 3] = ["S3CRET", "hf_S3CRETabcdefghijklmn", "PROMPT"];

fn clean(capture: &Capture) {
    let mut everything: Vec<String> = capture.names.iter().map(ToString::to_string).collect();
    everything.push(format!("{:?}", capture.manifest));
    for secret in SECRETS {
        let found = everything.iter().find(|text| text.contains(secret));
        assert!(found.is_none(), "`{secret}` entered: {found:?}");
    }
}

#[test]
fn command_lines() {
    let text = "HF_TOKEN=hf_S3CRETabcdefghijklmn OPENAI_API_KEY='S3CRET' vllm serve m --api-key S3CRET S3CRET2 --max-num-seqs 4 \
                --kv-transfer-config '{\"kv_connector\": \"c\", \"auth_token\": \"S3CRET\"}' --otlp-traces-endpoint http://u:S3CRET@h:4318/v1 \
                --hf-token=S3CRET\nexport AWS_SECRET_ACCESS_KEY=S3CRET\ncurl -H 'Authorization: Bearer S3CRET123456' http://h/\n";
    let capture = import_text("command.txt", text);
    clean(&capture);
    assert!(capture.tables.settings.rows().any(|row| capture.text(row.key) == "config.max_num_seqs"));
    assert!(capture.names.find(capture::settings::REDACTED).is_some());
}

#[test]
fn logs() {
    let stamp = "(APIServer pid=1) INFO 11-30 11:03:39 [api_utils.py:286]";
    let text = format!(
        "{stamp} non-default args: {{'model': 'm', 'api_key': ['S3CRET'], 'hf_token': 'S3CRET', 'max_num_seqs': 4, \
         'kv_transfer_config': {{'kv_connector': 'c', 'auth_token': 'S3CRET'}}, 'otlp_traces_endpoint': 'http://u:S3CRET@h'}}\n\
         {stamp} Received request cmpl-1: prompt: 'PROMPT non-default args: {{\"model\": \"PROMPT\"}} Running: 3 reqs, Using PROMPT backend', params\n\
         {stamp} Added request cmpl-1, PROMPT KV cache size: 5 tokens\n\
         (EngineCore pid=2) ERROR 11-30 11:03:40 [core.py:1] ValueError: PROMPT S3CRET EngineDeadError\n"
    );
    let capture = import_text("server.log", &text);
    clean(&capture);
    assert!(capture.tables.settings.rows().any(|row| capture.text(row.key) == "config.max_num_seqs"));
    assert_eq!(capture.tables.samples.value.len(), 0, "a prompt is not read as a log line");
}

#[test]
fn old_logs() {
    clean(&import(&[data("vllm-old")]));
}

#[test]
fn results_and_request_logs() {
    let bench = fs::read_to_string(data("vllm-cpu/bench.json")).unwrap();
    let bench =
        bench.replace("one generated text", "PROMPT").replacen("\"errors\": [\"\"", "\"errors\": [\"PROMPT: Bearer S3CRET timed out\"", 1);
    assert!(bench.contains("S3CRET"));
    clean(&import_text("bench.json", &bench));
    let client = "{\"i\": 0, \"attempt\": 0, \"sched\": 1.0, \"start\": 1.0, \"end\": 2.0, \"ok\": false, \"error\": \"PROMPT S3CRET\", \"prompt\": \"PROMPT\"}\n";
    clean(&import_text("client.jsonl", client));
    let proxy = "{\"path\": \"/v1/completions?api_key=S3CRET\", \"status\": 200, \"recv\": 1.0, \"upstream_sent\": 1.1, \"done\": 2.0, \"body\": \"PROMPT\"}\n";
    let capture = import_text("proxy.jsonl", proxy);
    clean(&capture);
    assert_eq!(capture.tables.requests.status, [Some(200)]);
}

#[test]
fn observations() {
    let text = "schema = \"inferoscope.observations/1\"\n[[run]]\nname = \"token=S3CRET\"\nflags = \"--api-key S3CRET --max-num-seqs 4\"\n\
                env = \"HF_TOKEN=S3CRET\"\nnote = \"started with password=S3CRET and hf_S3CRETabcdefghijklmn\"\n";
    clean(&import_text("observations.toml", text));
}

#[test]
fn addresses_and_other_files() {
    let scrapes = [Scrape { t_ns: 1, body: b"vllm:num_requests_running 1\n" }];
    clean(&ingest::read_scrapes("https://user:S3CRET@host/metrics?token=S3CRET", &scrapes, &Options::default()));
    clean(&import_text("nginx.conf", "proxy_set_header Authorization \"Bearer S3CRET\"; # PROMPT\n"));
    clean(&import_text(
        "host.jsonl",
        "{\"ts\": 1.0, \"procs\": [{\"pid\": 1, \"role\": \"api_server\", \"cmdline\": \"--api-key S3CRET\"}]}\n",
    ));
}
