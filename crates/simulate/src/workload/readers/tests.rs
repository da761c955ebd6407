//! One sample per format, damaged lines, limits.

use proptest::prelude::*;

use super::*;

fn reading(text: &str) -> Reading {
    read(&mut text.as_bytes(), Limits::default()).unwrap()
}

fn rows(reading: &Reading) -> Vec<(i64, u32, u32)> {
    reading.workload.requests().iter().map(|r| (r.arrival_ns, r.prompt_tokens, r.output_tokens)).collect()
}

#[test]
fn mooncake() {
    let reading = reading(
        r#"{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 2353]}
{"timestamp": 30535, "input_length": 1000, "output_length": 26, "hash_ids": [46, 2366]}
"#,
    );
    assert_eq!((reading.format, reading.damaged_count), (Format::Mooncake, 0));
    assert_eq!(rows(&reading), [(0, 1100, 52), (3_053_000_000, 1000, 26)]);
    let workload = &reading.workload;
    assert_eq!(workload.blocks(&workload.requests()[1]), [0, 3]);
    assert_eq!(workload.hash_block_tokens(), 512);
}

#[test]
fn bailian_follows_conversations() {
    let reading = reading(
        r#"{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089, 1090]}
{"chat_id": 160, "parent_chat_id": -1, "timestamp": 61.2, "input_length": 20, "output_length": 5, "type": "search", "turn": 1, "hash_ids": [7]}
{"chat_id": 161, "parent_chat_id": 159, "timestamp": 62.114, "input_length": 700, "output_length": 9, "type": "text", "turn": 2, "hash_ids": [1089, 1090, 9]}"#,
    );
    assert_eq!(reading.format, Format::Bailian);
    assert_eq!(rows(&reading)[2], (1_000_000_000, 700, 9));
    let sessions: Vec<u32> = reading.workload.requests().iter().map(|request| request.session).collect();
    assert_eq!(sessions, [1, 2, 1]);
    assert_eq!(reading.workload.hash_block_tokens(), 16);
}

#[test]
fn azure_burstgpt_lengths_and_engine_logs() {
    let azure =
        reading("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109");
    assert_eq!((azure.format, rows(&azure)), (Format::Azure, vec![(0, 374, 44), (4_314_579_000, 396, 109)]));
    let burst = reading(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
         5.0,12,1.5,ChatGPT,472,18,490,Conversation log\n45.5,,2,GPT-4,1087,230,1317,API log\n46,,0,GPT-4,10,0,10,API log\n",
    );
    assert_eq!((burst.format, rows(&burst)), (Format::BurstGpt, vec![(0, 472, 18), (40_500_000_000, 1087, 230)]));
    assert_eq!((burst.workload.requests()[0].session, burst.unanswered_count, burst.damaged_count), (12, 1, 0));
    let lengths = reading("arrival_time_ns,input_toks,output_toks\n46926808,2358,531\n");
    assert_eq!((lengths.format, rows(&lengths)), (Format::Lengths, vec![(0, 2358, 531)]));
    let log = reading(
        r#"{"request_id": "bench-0", "input_toks": 2358, "output_toks": 531, "arrival_time": 1777142838.338653, "queued_ts": 479748.3}
{"request_id": "bench-1", "input_toks": 1034, "output_toks": 769, "arrival_time": 1777142838.6237123, "queued_ts": 479748.6}"#,
    );
    assert_eq!(log.format, Format::EngineLog);
    let gap_ns = log.workload.requests()[1].arrival_ns;
    assert!((gap_ns - 285_059_300).abs() < 500, "{gap_ns}");
}

#[test]
fn damaged_lines_are_counted_and_named() {
    let reading = reading(
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,374,44\n2023-11-16 18:15:50,many,109\n2023-11-16 18:15:51,1,-4\n\n\
         2023-11-16 18:15:52,2,2\n2023-11-16 18:15:53,3,3\n2023-11-16 18:15:54,4,4\n",
    );
    assert_eq!((reading.line_count, reading.damaged_count), (7, 3));
    let named: Vec<String> = reading.damage.iter().map(|d| format!("{} {} {}", d.line, d.field, d.found)).collect();
    assert_eq!(named, ["2 TIMESTAMP yesterday", "3 ContextTokens many", "4 output tokens -4"]);
    assert_eq!(reading.workload.requests().len(), 3);
}

#[test]
fn hopeless_input_is_an_error() {
    let error = |text: &[u8], limits: Limits| read(&mut &text[..], limits).unwrap_err().to_string();
    assert_eq!(error(b"", Limits::default()), "expected a request trace, found no line");
    assert_eq!(
        error(b"\n\nhello, world\n", Limits::default()),
        "line 3: expected the header or first record of a request trace, found `hello, world`"
    );
    let mostly = b"TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1\n2,2,2\n3,3,3\n";
    assert_eq!(
        error(mostly, Limits::default()),
        "3 of 4 lines do not fit; line 2, `TIMESTAMP`: expected a date and time like `2023-11-16 18:17:03.97`, found `1`"
    );
    let two = b"arrival_time_ns,input_toks,output_toks\n1,1,1\n2,2,2\n";
    assert_eq!(error(two, Limits { requests: 1, ..Limits::default() }), "line 3: expected at most 1 requests, found more");
    let ids = br#"{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2, 3]}"#;
    assert_eq!(error(ids, Limits { blocks: 2, ..Limits::default() }), "line 1: expected at most 2 block ids, found more");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), header in 0usize..4) {
        let mut text = [
            &b""[..],
            b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
            b"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}\n",
            b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens\n",
        ][header].to_vec();
        text.extend(bytes);
        let _ = read(&mut &text[..], Limits { line_bytes: 100, requests: 10, blocks: 10 });
    }

    #[test]
    fn a_cut_trace_reads_up_to_the_cut(cut in 0usize..170) {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n";
        let cut = cut.min(text.len());
        if let Ok(reading) = read(&mut &text.as_bytes()[..cut], Limits::default()) {
            prop_assert!(reading.workload.requests().len() <= 3);
            prop_assert!(reading.damaged_count <= 1);
        }
    }
}
