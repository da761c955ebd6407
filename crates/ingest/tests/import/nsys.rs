//! Exports of Nsight Systems: a trimmed recording, and databases made here in the schemas of 2022 and 2026.

use std::path::{Path, PathBuf};

use capture::Capture;
use expect_test::expect;
use rusqlite::Connection;

use crate::shown::{data, import, show};

/// Rows of the timeline, one per line.
pub(crate) fn timeline(capture: &Capture) -> String {
    let text = |name| capture.text(name);
    let mut lines = String::new();
    for row in capture.tables.device_events.rows() {
        let span = format!("{}+{}", row.t_start_ns, row.t_end_ns - row.t_start_ns);
        let place = format!("process {} device {} stream {}", row.process, row.device, row.stream);
        let rest = format!("corr {} graph {} bytes {} [{}]", row.correlation, row.graph, row.byte_count, text(row.shape));
        lines += &format!("{span} {} {:?} {place} {rest}\n", text(row.kind), text(row.name));
    }
    for row in capture.tables.host_events.rows() {
        let span = format!("{}+{}", row.t_start_ns, row.t_end_ns - row.t_start_ns);
        let place = format!("process {} thread {} corr {}", row.process, row.thread, row.correlation);
        lines += &format!("{span} {} {:?} {place}\n", text(row.kind), text(row.name));
    }
    lines
}

/// A database made by SQL, on disk.
fn made(folder: &Path, sql: &str) -> PathBuf {
    let path = folder.join("report.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    path
}

fn import_made(sql: &str) -> Capture {
    let folder = tempfile::tempdir().unwrap();
    let path = made(folder.path(), sql);
    let before = std::fs::read(&path).unwrap();
    let capture = import(std::slice::from_ref(&path));
    assert!(before == std::fs::read(&path).unwrap(), "the export is not written to");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside the export");
    capture
}

const SCHEMA_2022: &str = "
    create table EXPORT_META_DATA (name text not null, value text);
    insert into EXPORT_META_DATA values ('EXPORT_SCHEMA_VERSION', '2.7.1');
    create table StringIds (id integer not null primary key, value text not null);
    create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null, deviceId integer not null, contextId integer,
        streamId integer not null, correlationId integer, globalPid integer, demangledName integer not null, shortName integer not null,
        registersPerThread integer, gridX integer, gridY integer, gridZ integer, blockX integer, blockY integer, blockZ integer,
        staticSharedMemory integer, dynamicSharedMemory integer);
    create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer, streamId integer, correlationId integer,
        globalPid integer, bytes integer, copyKind integer, srcKind integer, dstKind integer);
    create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer, correlationId integer,
        nameId integer, returnValue integer);
    create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer, textId integer);
    insert into StringIds values (1, 'void gemm<128>(float*)'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000'), (4, 'cuMemcpyHtoDAsync_v2'),
        (5, 'execute_context_0(0)_generation_32(32)'), (9, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)');
    insert into CUPTI_ACTIVITY_KIND_KERNEL values
        (2000, 2500, 0, 1, 7, 11, 281474993487872, 1, 2, 64, 4, 2, 1, 128, 1, 1, 1024, 512),
        (2600, 2900, 1, 1, 13, 12, 281474993487872, 9, 9, 96, 24, 1, 1, 512, 1, 1, 0, 0),
        (3000, 2999, 0, 1, 7, 13, 281474993487872, 1, 2, 64, 4, 2, 1, 128, 1, 1, 0, 0);
    insert into CUPTI_ACTIVITY_KIND_MEMCPY values (1000, 1900, 0, 7, 10, 281474993487872, 4096, 1, 0, 2);
    insert into CUPTI_ACTIVITY_KIND_RUNTIME values (900, 950, 1, 281474993487879, 10, 4, 0), (1500, 1510, 0, 281474993487879, 11, 3, 0);
    insert into NVTX_EVENTS values (800, 4000, 59, null, 281474993487879, 5), (1400, 1600, 59, 'aten::mm, op_id = 17, seq = 3', 281474993487879, null),
        (1400, null, 59, 'open', 281474993487879, null), (1400, null, 34, 'mark', 281474993487879, null);
";

#[test]
fn an_export_of_2022_is_read() {
    let capture = import_made(SCHEMA_2022);
    expect![[r#"
        1000+900 memcpy "HtoD Pageable -> Device" process 1 device 0 stream 7 corr 10 graph 0 bytes 4096 []
        2000+500 kernel "void gemm<128>(float*)" process 1 device 0 stream 7 corr 11 graph 0 bytes 0 [grid=4,2,1 block=128,1,1 regs=64 smem=1536]
        2600+300 kernel "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)" process 1 device 1 stream 13 corr 12 graph 0 bytes 0 [grid=24,1,1 block=512,1,1 regs=96 smem=0]
        800+3200 annotation "execute_context_0(0)_generation_32(32)" process 1 thread 7 corr 0
        900+50 driver "cuMemcpyHtoDAsync_v2" process 1 thread 7 corr 10
        1400+200 op "aten::mm" process 1 thread 7 corr 0
        1500+10 runtime "cudaLaunchKernel" process 1 thread 7 corr 11
        subject  |  |  |  |  | recorded
        form  |  |  | 
        runs=1 device_events=3 host_events=4 collectives=1 issues=3
        ! note open_ranges report.sqlite [] x1 expected ranges to end within the recording, found some that do not; they are left out
        ! note session_start_unknown report.sqlite [] x1 expected the export to tell when its session began, found nothing of it; times count from the start of the session and cannot be compared with other sources
        ! warning impossible_times report.sqlite [table CUPTI_ACTIVITY_KIND_KERNEL] x1 expected events of `CUPTI_ACTIVITY_KIND_KERNEL` to end after their start, found others; they are left out
    "#]].assert_eq(&(timeline(&capture) + &show(&capture, &["subject", "clocks", "counts"])));
    let collectives: Vec<_> =
        capture.tables.collectives.rows().map(|row| (row.device, capture.text(row.op).to_string(), row.rank)).collect();
    assert_eq!(collectives, [(1, "allreduce".to_string(), -1)]);
}

const SCHEMA_2026: &str = "
    create table META_DATA_EXPORT (name text, value text);
    create table META_DATA_CAPTURE (name text, value text);
    insert into META_DATA_CAPTURE values ('CAPTURE_COMMAND', 'serve --api-key sk-verysecret'), ('ENV', 'HF_TOKEN=hf_verysecret');
    create table TARGET_INFO_SYSTEM_ENV (name text, value text);
    insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', 'secrethost'), ('PATH', '/secret/path');
    create table PROCESSES (globalPid integer, pid integer, name text);
    insert into PROCESSES values (1, 1, '/secret/path/serve');
    create table StringIds (id integer primary key, value text);
    insert into StringIds values (1, 'decode_attention'), (2, 'cudaGraphLaunch_v10000'), (3, 'poll'), (4, 'Buffer flush');
    create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text, localTime text, systemClockNs integer);
    insert into TARGET_INFO_SESSION_START_TIME values (1796036000000000000, '', '', 5000);
    create table ANALYSIS_DETAILS (globalVid integer, duration integer, startTime integer, stopTime integer);
    insert into ANALYSIS_DETAILS values (0, 100000, 5000, 105000);
    create table TARGET_INFO_GPU (vmId integer, id integer, name text, totalMemory integer, memoryBandwidth integer, smCount integer,
        maxWarpsPerSm integer, cuDevice integer);
    insert into TARGET_INFO_GPU values (0, 0, 'NVIDIA H100 80GB HBM3', 85000000000, 3350000000000, 132, 64, 0),
        (0, 3, 'NVIDIA H200', 141000000000, 4800000000000, 132, 64, 3);
    create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer, pid integer, uuid text);
    insert into TARGET_INFO_CUDA_DEVICE values (3, 0, 111, 'GPU-x');
    create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, streamId integer, correlationId integer,
        globalPid integer, demangledName integer, graphNodeId integer, graphId integer, gridX integer, gridY integer, gridZ integer,
        blockX integer, blockY integer, blockZ integer);
    insert into CUPTI_ACTIVITY_KIND_KERNEL values (6000, 6500, 0, 7, 21, 281476838981632, 1, 8589934593, 2, 1, 1, 1, 32, 1, 1);
    create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start integer, end integer, deviceId integer, streamId integer, correlationId integer,
        globalPid integer, graphId integer, graphExecId integer);
    insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (7000, 9000, 0, 7, 22, 281476838981632, 5, 6), (9000, 0, 0, 7, 23, 281476838981632, 5, 6);
    create table CUPTI_ACTIVITY_KIND_MEMSET (start integer, end integer, deviceId integer, streamId integer, correlationId integer,
        globalPid integer, value integer, bytes integer, graphNodeId integer, memKind integer);
    insert into CUPTI_ACTIVITY_KIND_MEMSET values (6600, 6610, 0, 7, 24, 281476838981632, 0, 64, null, 2);
    create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer, streamId integer, correlationId integer,
        globalPid integer, syncType integer);
    insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (6700, 6800, 0, 7, 25, 281476838981632, 3);
    create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer, correlationId integer,
        nameId integer);
    insert into CUPTI_ACTIVITY_KIND_RUNTIME values (5900, 5950, 0, 281476838981743, 22, 2);
    create table CUPTI_ACTIVITY_KIND_OVERHEAD (start integer, end integer, globalTid integer, nameId integer, overheadType integer);
    insert into CUPTI_ACTIVITY_KIND_OVERHEAD values (5000, 5100, 281476838981743, 4, 3);
    create table OSRT_API (start integer, end integer, eventClass integer, globalTid integer, nameId integer);
    insert into OSRT_API values (5200, 5800, 27, 281476838981743, 3);
    create table SCHED_EVENTS (start integer, cpu integer, isSchedIn integer, globalTid integer);
    insert into SCHED_EVENTS values (5700, 3, 1, 281476838981743), (5300, 3, 0, 281476838981743), (5900, 3, 0, 281476838981743),
        (5300, 4, 0, 281476838981999), (5700, 4, 1, 281476838981999), (5100, 5, 1, 281476838981743);
    create table COMPOSITE_EVENTS (start integer);
    insert into COMPOSITE_EVENTS values (1);
    create table DIAGNOSTIC_EVENT (timestamp integer, timestampType integer, source integer, severity integer, text text, globalPid integer);
    insert into DIAGNOSTIC_EVENT values (1, 0, 1, 1, 'Profiling started in /secret/path', 0), (2, 0, 1, 2, 'Not all events might have been collected.', 0),
        (3, 0, 1, 3, 'Dropped 12 buffers of /secret/path', 0);
    create table TARGET_INFO_GPU_METRICS (typeId integer, sourceId integer, typeName text, metricId integer, metricName text);
    create table GPU_METRICS (timestamp integer, typeId integer, metricId integer, value integer);
    insert into TARGET_INFO_GPU_METRICS values (16777219, 1, 'GH100', 1, 'SMs Active [Throughput %]'), (16777219, 1, 'GH100', 2, 'DRAM Read Bandwidth [Throughput %]'),
        (16777219, 1, 'GH100', 3, 'DRAM Write Bandwidth [Throughput %]'), (16777219, 1, 'GH100', 4, 'GPC Clock Frequency [MHz]'),
        (16777219, 1, 'GH100', 5, 'Unallocated Warps in Active SMs [Throughput %]');
    insert into GPU_METRICS values (6000, 16777219, 1, 40), (6000, 16777219, 2, 50), (6000, 16777219, 3, 20), (6000, 16777219, 4, 1755000000),
        (6000, 16777219, 5, 9), (16000, 16777219, 1, 0), (16000, 16777219, 2, 'x');
";

#[test]
fn an_export_of_2026_is_read_with_its_devices_metrics_and_complaints() {
    let capture = import_made(SCHEMA_2026);
    expect![[r#"
        1796036000000001000+500 kernel "decode_attention" process 111 device 0 stream 7 corr 21 graph 2097153 bytes 0 [grid=1,1,1 block=32,1,1]
        1796036000000001600+10 memset "Device" process 111 device 0 stream 7 corr 24 graph 0 bytes 64 []
        1796036000000002000+2000 graph "graph 5" process 111 device 0 stream 7 corr 22 graph 5 bytes 0 []
        1796036000000000000+100 overhead "Buffer Flush" process 111 thread 111 corr 0
        1796036000000000200+600 os "poll" process 111 thread 111 corr 0
        1796036000000000300+400 off_cpu "off_cpu" process 111 thread 111 corr 0
        1796036000000000900+50 runtime "cudaGraphLaunch" process 111 thread 111 corr 22
        1796036000000001700+100 sync "Stream Sync" process 111 thread 0 corr 25
        subject  |  |  |  | NVIDIA H200 | recorded
        form  |  |  | 
        clock report.sqlite nsys session 1796035999999995000 ±1000000 session start told by the export
        1796036000000001000 0 gpu.dram_active{device="0"} 0.7
        1796036000000001000 0 gpu.sm_active{device="0"} 0.4
        1796036000000001000 0 gpu.sm_clock{device="0"} 1755000000
        1796036000000011000 0 gpu.sm_active{device="0"} 0
        ! note tables_not_read report.sqlite [] x1 found rows in COMPOSITE_EVENTS, which are not read; the timeline of devices and calls does not need them
        ! warning graphs_not_expanded report.sqlite [] x1 expected the kernels of graph replays, found each replay as one block: what runs inside is not known; record with `nsys profile --cuda-graph-trace=node`, which costs some time per kernel
        ! warning impossible_times report.sqlite [table CUPTI_ACTIVITY_KIND_GRAPH_TRACE] x1 expected events of `CUPTI_ACTIVITY_KIND_GRAPH_TRACE` to end after their start, found others; they are left out
        ! warning impossible_value report.sqlite [] x1 expected metrics of zero or more at possible times, found others; they are left out
        ! warning profiler_complaint report.sqlite [entry 1] x1 expected a recording without complaints, found one of the profiler: Dropped 12 buffers of …
        ! warning profiler_complaint report.sqlite [entry 2] x1 expected a recording without complaints, found one of the profiler: Not all events might have been collected.
    "#]].assert_eq(&(timeline(&capture) + &show(&capture, &["subject", "clocks", "samples"])));
    let devices: Vec<_> = capture.tables.devices.rows().map(|row| (row.device, capture.text(row.name).to_string(), row.sm_count)).collect();
    assert_eq!(devices, [(0, "NVIDIA H200".to_string(), 132)]);
    let text: Vec<&str> = capture.names.iter().collect();
    assert!(!text.iter().any(|text| text.contains("secret")), "{text:?}");
}

#[test]
fn a_trimmed_recording_keeps_every_event() {
    let path = data("traces/nsys_2026.sqlite");
    let capture = import(std::slice::from_ref(&path));
    let connection = Connection::open(&path).unwrap();
    let sum = |table: &str| -> (i64, i64) {
        let sql = format!("select count(*), coalesce(sum(end - start), 0) from {table}");
        connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let kind = |wanted: &str| -> (i64, i64) {
        let device = capture.tables.device_events.rows().map(|row| (row.kind, row.t_end_ns - row.t_start_ns));
        let host = capture.tables.host_events.rows().map(|row| (row.kind, row.t_end_ns - row.t_start_ns));
        let of_kind = device.chain(host).filter(|(kind, _)| capture.text(*kind) == wanted);
        of_kind.fold((0, 0), |(count, sum), (_, length)| (count + 1, sum + length))
    };
    let both = |a: (i64, i64), b: (i64, i64)| (a.0 + b.0, a.1 + b.1);
    assert_eq!(kind("kernel"), sum("CUPTI_ACTIVITY_KIND_KERNEL"));
    assert_eq!(kind("memcpy"), sum("CUPTI_ACTIVITY_KIND_MEMCPY"));
    assert_eq!(kind("memset"), sum("CUPTI_ACTIVITY_KIND_MEMSET"));
    assert_eq!(both(kind("runtime"), kind("driver")), sum("CUPTI_ACTIVITY_KIND_RUNTIME"));
    assert_eq!(both(kind("op"), kind("annotation")), sum("NVTX_EVENTS"));
    assert_eq!((kind("sync"), kind("overhead")), (sum("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"), sum("PROFILER_OVERHEAD")));
    assert!(kind("kernel").0 > 50 && kind("driver").0 > 0 && kind("annotation").0 > 0 && !capture.tables.collectives.t_start_ns.is_empty());
    assert_eq!(show(&capture, &[]), "");
    // The clock of the events stood at this value when the session began.
    assert_eq!(capture.manifest.clocks[0].offset_ns, 1_779_782_330_176_752_435 - 28_254_349_605);
}

#[test]
fn the_same_export_reads_alike_from_a_file_through_gzip_and_from_memory() {
    let path = data("traces/nsys_2026.sqlite");
    let bytes = std::fs::read(&path).unwrap();
    let from_file = import(std::slice::from_ref(&path));
    let from_memory = ingest::read_bytes("nsys_2026.sqlite", &bytes, &ingest::Options::default());
    assert!(from_file == from_memory);
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("nsys_2026.sqlite.gz");
    let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &bytes).unwrap();
    encoder.finish().unwrap();
    assert_eq!(timeline(&import(&[packed])), timeline(&from_file));
}

#[test]
fn damage_costs_the_rows_on_it_and_is_told() {
    let bytes = std::fs::read(data("traces/nsys_2026.sqlite")).unwrap();
    let read = |bytes: &[u8]| ingest::read_bytes("nsys_2026.sqlite", bytes, &ingest::Options::default());
    let rows = |capture: &Capture| capture.tables.device_events.t_start_ns.len() + capture.tables.host_events.t_start_ns.len();
    let whole = rows(&read(&bytes));
    let mut losses = 0;
    for page in (1..bytes.len() / 4096).step_by(2) {
        let mut damaged = bytes.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0);
        let capture = read(&damaged);
        if rows(&capture) < whole {
            losses += 1;
            assert!(!capture.tables.issues.count.is_empty() && capture.manifest.sources[0].damaged, "page {page}");
        }
    }
    assert!(losses > 5, "{losses}");
    for part in [1, 3, 8, 14, 19] {
        let capture = read(&bytes[..bytes.len() * part / 20]);
        assert!(show(&capture, &[]).contains("truncated_database") || rows(&capture) == 0, "{part}");
    }
}

#[test]
fn a_database_of_something_else_is_an_attachment() {
    let capture = import_made("create table users (name text); insert into users values ('bob')");
    expect![[r#"
        source report.sqlite attachment rows=1 unmapped=0
        ! note attachment report.sqlite [] x1 found an SQLite database of 1 tables with none of an Nsight Systems export; the file is kept as an attachment and not read
    "#]].assert_eq(&show(&capture, &["sources"]));
    let capture = import_made("create table rocpd_kernel_dispatch (id integer); insert into rocpd_kernel_dispatch values (1)");
    assert!(show(&capture, &[]).contains("rocprofv3 --output-format json"));
}

#[test]
fn a_hostile_schema_is_only_data() {
    let capture = import_made(
        "create table StringIds (id integer primary key, value text);
         create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName);
         insert into CUPTI_ACTIVITY_KIND_KERNEL values (9223372036854775807, 9223372036854775807, 0, 7, 1, 0, 1), ('a', x'00', 1.5, -1, 1, 0, 1),
             (-5, 10, -1, 7, 99999999999, -1, 77), (0, 9000000000000000000, 0, 7, 1, 0, 1), (1.5, 2, 0, 7, 1, 0, 1);
         create view CUPTI_ACTIVITY_KIND_MEMCPY as with recursive n(x) as (select 1 union all select x + 1 from n) select x as start, x as end from n;
         create table NVTX_EVENTS (start integer primary key, end integer) without rowid;
         create trigger t after insert on StringIds begin delete from StringIds; end;",
    );
    expect![[r#"
        -5+15 kernel "unknown" process 16777215 device 0 stream 7 corr 0 graph 0 bytes 0 []
        ! note session_start_unknown report.sqlite [] x1 expected the export to tell when its session began, found nothing of it; times count from the start of the session and cannot be compared with other sources
        ! warning impossible_correlation report.sqlite [] x1 expected correlation ids of 32 bits, found others; what they belong to stays without its call
        ! warning impossible_times report.sqlite [table CUPTI_ACTIVITY_KIND_KERNEL] x4 expected events of `CUPTI_ACTIVITY_KIND_KERNEL` to end after their start, found others; they are left out
        ! warning unnamed_events report.sqlite [] x1 expected every event to have its name in `StringIds`, found none for some; they are called `unknown`
        ! warning unreadable_table report.sqlite [] x1 expected `NVTX_EVENTS` to be a plain table with row numbers, found another kind; it is not read
    "#]].assert_eq(&(timeline(&capture) + &show(&capture, &[])));
}
