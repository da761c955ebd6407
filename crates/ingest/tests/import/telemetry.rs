//! GPU telemetry: nvidia-smi, dcgmi and the exporters, with exact values, damage and time.

use std::fs;

use expect_test::expect;
use ingest::Options;

use crate::shown::{check, data, import, import_text};

#[test]
fn nvidia_smi_csv_gives_every_device_its_values() {
    check(
        &import(&[data("gpu/nvidia-smi.csv")]),
        &["subject", "sources", "clocks", "samples"],
        expect![[r#"
        subject  |  |  |  | NVIDIA H100 80GB HBM3 | recorded
        form  |  |  | 
        source nvidia-smi.csv nvidia_smi_csv rows=65 unmapped=0
        clock nvidia-smi.csv local time 0 ±50400000000000 assumed UTC; no other source to compare with
        1793700762014000000 0 gpu.busy{device="0"} 0.99
        1793700762014000000 0 gpu.mem_clock{device="0"} 2619000000
        1793700762014000000 0 gpu.memory_busy{device="0"} 0.82
        1793700762014000000 0 gpu.memory_total{device="0"} 85520809984
        1793700762014000000 0 gpu.memory_used{device="0"} 74807508992
        1793700762014000000 0 gpu.pcie_gen{device="0"} 5
        1793700762014000000 0 gpu.power{device="0"} 512.4
        1793700762014000000 0 gpu.power_limit{device="0"} 700
        1793700762014000000 0 gpu.sm_clock{device="0"} 1980000000
        1793700762014000000 0 gpu.sm_clock_max{device="0"} 1980000000
        1793700762014000000 0 gpu.temperature{device="0"} 58
        1793700762014000000 0 gpu.throttle_reasons{device="0"} 0
        1793700762016000000 0 gpu.busy{device="1"} 0.97
        1793700762016000000 0 gpu.mem_clock{device="1"} 2619000000
        1793700762016000000 0 gpu.memory_busy{device="1"} 0.29
        1793700762016000000 0 gpu.memory_total{device="1"} 85520809984
        1793700762016000000 0 gpu.memory_used{device="1"} 74807508992
        1793700762016000000 0 gpu.pcie_gen{device="1"} 5
        1793700762016000000 0 gpu.power{device="1"} 698.1
        1793700762016000000 0 gpu.power_limit{device="1"} 700
        1793700762016000000 0 gpu.sm_clock{device="1"} 1410000000
        1793700762016000000 0 gpu.sm_clock_max{device="1"} 1980000000
        1793700762016000000 0 gpu.temperature{device="1"} 71
        1793700762016000000 0 gpu.throttle_reasons{device="1"} 4
        1793700763019000000 0 gpu.busy{device="0"} 0.57
        1793700763019000000 0 gpu.mem_clock{device="0"} 2619000000
        1793700763019000000 0 gpu.memory_busy{device="0"} 0.81
        1793700763019000000 0 gpu.memory_total{device="0"} 85520809984
        1793700763019000000 0 gpu.memory_used{device="0"} 74807508992
        1793700763019000000 0 gpu.pcie_gen{device="0"} 5
        1793700763019000000 0 gpu.power{device="0"} 514.77
        1793700763019000000 0 gpu.power_limit{device="0"} 700
        1793700763019000000 0 gpu.sm_clock{device="0"} 1980000000
        1793700763019000000 0 gpu.sm_clock_max{device="0"} 1980000000
        1793700763019000000 0 gpu.temperature{device="0"} 58
        1793700763019000000 0 gpu.throttle_reasons{device="0"} 0
        1793700763021000000 0 gpu.mem_clock{device="1"} 2619000000
        1793700763021000000 0 gpu.memory_busy{device="1"} 0.3
        1793700763021000000 0 gpu.memory_total{device="1"} 85520809984
        1793700763021000000 0 gpu.memory_used{device="1"} 74807508992
        1793700763021000000 0 gpu.pcie_gen{device="1"} 5
        1793700763021000000 0 gpu.power{device="1"} 699.52
        1793700763021000000 0 gpu.power_limit{device="1"} 700
        1793700763021000000 0 gpu.sm_clock{device="1"} 1395000000
        1793700763021000000 0 gpu.sm_clock_max{device="1"} 1980000000
        1793700763021000000 0 gpu.temperature{device="1"} 72
        1793700763021000000 0 gpu.throttle_reasons{device="1"} 36
        1793700763021000000 0 gpu.throttle_share{device="0",reason="applications_clocks_setting"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="display_clocks_setting"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="gpu_idle"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="hw_power_brake_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="hw_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="hw_thermal_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="sw_power_cap"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="sw_thermal_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="0",reason="sync_boost"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="applications_clocks_setting"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="display_clocks_setting"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="gpu_idle"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="hw_power_brake_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="hw_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="hw_thermal_slowdown"} 0
        1793700763021000000 0 gpu.throttle_share{device="1",reason="sw_power_cap"} 1
        1793700763021000000 0 gpu.throttle_share{device="1",reason="sw_thermal_slowdown"} 0.5
        1793700763021000000 0 gpu.throttle_share{device="1",reason="sync_boost"} 0
        ! warning unreadable_cell nvidia-smi.csv [] x1 expected a number in the unit of its column, found something else; the value is left out
    "#]],
    );
}

#[test]
fn nvidia_smi_csv_reads_without_units_times_and_with_flags_for_reasons() {
    let text = "index, power.draw [W], clocks_throttle_reasons.sw_power_cap, clocks_throttle_reasons.hw_thermal_slowdown\n\
                0, 300.5, Active, Not Active\n1, [N/A], Not Active, Not Active\n0, 301.5, Not Active, Active\n";
    check(
        &import_text("gpu.csv", text),
        &["sources", "samples"],
        expect![[r#"
        source gpu.csv nvidia_smi_csv rows=23 unmapped=0
        1000000000 0 gpu.power{device="0"} 300.5
        1000000000 0 gpu.throttle_reasons{device="0"} 4
        1000000000 0 gpu.throttle_reasons{device="1"} 0
        2000000000 0 gpu.power{device="0"} 301.5
        2000000000 0 gpu.throttle_reasons{device="0"} 64
        2000000000 0 gpu.throttle_share{device="0",reason="applications_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="display_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="gpu_idle"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_power_brake_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_thermal_slowdown"} 0.5
        2000000000 0 gpu.throttle_share{device="0",reason="sw_power_cap"} 0.5
        2000000000 0 gpu.throttle_share{device="0",reason="sw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="sync_boost"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="applications_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="display_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="gpu_idle"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_power_brake_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="sw_power_cap"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="sw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="sync_boost"} 0
        ! note rows_without_time gpu.csv [] x3 expected a time in each row, found none; rounds of rows are laid a second apart, so that only their order and their mean mean something
    "#]],
    );
}

#[test]
fn nvidia_smi_csv_is_read_up_to_the_damage() {
    let whole = fs::read_to_string(data("gpu/nvidia-smi.csv")).unwrap();
    let damaged = whole.replace("2026/11/03 10:12:43.019", "2026/99/03 10:12:43.019").replace("57 %", "57 %, 1");
    let damaged = damaged.replace("698.10 W", "698.10 kW").replace("2619 MHz, 71,", "2619 MHz, x71,");
    check(
        &import_text("gpu.csv", &damaged[..damaged.len() - 30]),
        &["sources", "counts"],
        expect![[r#"
        source gpu.csv nvidia_smi_csv rows=40 unmapped=0 damaged
        runs=1 samples=40 issues=3
        ! warning damaged_row gpu.csv [line 4] x1 expected 17 cells with a time and numbers, found something else; the row is left out
        ! warning line_cut gpu.csv [line 5] x1 expected a line end, found the end of the text; the last row is left out
        ! warning unreadable_cell gpu.csv [] x2 expected a number in the unit of its column, found something else; the value is left out
    "#]],
    );
}

#[test]
fn rows_of_devices_that_nothing_tells_apart_are_told() {
    let row = "2026/11/03 10:12:42.014, 300.00 W\n";
    check(
        &import_text("gpu.csv", &format!("timestamp, power.draw [W]\n{row}{row}")),
        &["samples"],
        expect![[r#"
        1793700762014000000 0 gpu.power{device="0"} 300
        1793700762014000000 0 gpu.power{device="0"} 300
        ! warning devices_not_told gpu.csv [] x1 expected a column that names the device (`index`, `uuid`, `pci.bus_id`), found none and several rows at one time: they are read as one device
    "#]],
    );
}

#[test]
fn local_times_follow_the_other_sources() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("gpu/nvidia-smi.csv"), folder.path().join("nvidia-smi.csv")).unwrap();
    // The machine stands one hour east of UTC.
    let hour_earlier = fs::read_to_string(data("gpu/dcgm.prom")).unwrap().replace("ts=17937007", "ts=17936971");
    fs::write(folder.path().join("dcgm.prom"), hour_earlier).unwrap();
    check(
        &import(&[folder.path().to_path_buf()]),
        &["clocks"],
        expect![[r#"
        clock nvidia-smi.csv local time -3600000000000 ±1000000000 zone in whole quarters of an hour; covers the same time as the other sources
        ! note unmapped_families dcgm.prom [] x1 metric families without a signal here, left out: DCGM_FI_DEV_XID_ERRORS
        ! warning unreadable_cell nvidia-smi.csv [] x1 expected a number in the unit of its column, found something else; the value is left out
    "#]],
    );
}

#[test]
fn a_log_takes_its_year_from_telemetry() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(data("gpu/nvidia-smi.csv"), folder.path().join("nvidia-smi.csv")).unwrap();
    let log = "INFO 11-03 10:12:41 [loggers.py:335] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n";
    fs::write(folder.path().join("server.log"), [log, &log.replace(":41", ":51")].concat()).unwrap();
    let capture = import(&[folder.path().to_path_buf()]);
    let years: std::collections::BTreeSet<i64> = capture.tables.logs.t_ns.iter().map(|t_ns| 1970 + t_ns / 31_557_600_000_000_000).collect();
    assert_eq!(years.into_iter().collect::<Vec<_>>(), [2026]);
    check(
        &capture,
        &["clocks"],
        expect![[r#"
        clock nvidia-smi.csv local time 0 ±50400000000000 assumed UTC; no other source to compare with
        clock server.log log local time 0 ±1000000000 assumed UTC; covers the same time as the other sources
        ! warning unreadable_cell nvidia-smi.csv [] x1 expected a number in the unit of its column, found something else; the value is left out
    "#]],
    );
}

#[test]
fn nvidia_smi_dmon_gives_every_device_its_values() {
    check(
        &import(&[data("gpu/dmon.txt")]),
        &["sources", "clocks", "samples"],
        expect![[r#"
        source dmon.txt nvidia_smi_dmon rows=23 unmapped=0
        clock dmon.txt local time 0 ±50400000000000 assumed UTC; no other source to compare with
        1793700762000000000 0 gpu.busy{device="0"} 0.99
        1793700762000000000 0 gpu.busy{device="1"} 0.97
        1793700762000000000 0 gpu.mem_clock{device="0"} 2619000000
        1793700762000000000 0 gpu.mem_clock{device="1"} 2619000000
        1793700762000000000 0 gpu.memory_busy{device="0"} 0.82
        1793700762000000000 0 gpu.memory_busy{device="1"} 0.29
        1793700762000000000 0 gpu.memory_used{device="0"} 74807508992
        1793700762000000000 0 gpu.memory_used{device="1"} 74807508992
        1793700762000000000 0 gpu.pcie_bytes{device="0"} 151000000
        1793700762000000000 0 gpu.power{device="0"} 512
        1793700762000000000 0 gpu.power{device="1"} 698
        1793700762000000000 0 gpu.sm_clock{device="0"} 1980000000
        1793700762000000000 0 gpu.sm_clock{device="1"} 1410000000
        1793700762000000000 0 gpu.temperature{device="0"} 58
        1793700762000000000 0 gpu.temperature{device="1"} 71
        1793700763000000000 0 gpu.busy{device="0"} 0.57
        1793700763000000000 0 gpu.mem_clock{device="0"} 2619000000
        1793700763000000000 0 gpu.memory_busy{device="0"} 0.81
        1793700763000000000 0 gpu.memory_used{device="0"} 74807508992
        1793700763000000000 0 gpu.pcie_bytes{device="0"} 110000000
        1793700763000000000 0 gpu.power{device="0"} 514
        1793700763000000000 0 gpu.sm_clock{device="0"} 1980000000
        1793700763000000000 0 gpu.temperature{device="0"} 58
    "#]],
    );
    let without_time = "# gpu    pwr  gtemp     sm\n# Idx      W      C      %\n    0    512     58     99\n    1      -     60     98\n    0    513     58    100\n    0  5";
    check(
        &import_text("dmon.txt", without_time),
        &["sources", "samples"],
        expect![[r#"
        source dmon.txt nvidia_smi_dmon rows=8 unmapped=0 damaged
        1000000000 0 gpu.busy{device="0"} 0.99
        1000000000 0 gpu.busy{device="1"} 0.98
        1000000000 0 gpu.power{device="0"} 512
        1000000000 0 gpu.temperature{device="0"} 58
        1000000000 0 gpu.temperature{device="1"} 60
        2000000000 0 gpu.busy{device="0"} 1
        2000000000 0 gpu.power{device="0"} 513
        2000000000 0 gpu.temperature{device="0"} 58
        ! note rows_without_time dmon.txt [] x3 expected a time in each row, found none; rounds of rows are laid a second apart, so that only their order and their mean mean something
        ! warning line_cut dmon.txt [line 6] x1 expected a line end, found the end of the text; the last row is left out
    "#]],
    );
}

#[test]
fn dcgmi_dmon_gives_every_device_its_values() {
    check(
        &import(&[data("gpu/dcgmi-dmon.txt")]),
        &["sources", "samples"],
        expect![[r#"
        source dcgmi-dmon.txt dcgmi_dmon rows=48 unmapped=0
        1000000000 0 gpu.busy{device="0"} 0.99
        1000000000 0 gpu.dram_active{device="0"} 0.706
        1000000000 0 gpu.dram_active{device="1"} 0.31
        1000000000 0 gpu.nvlink_bytes{device="1"} 12000000
        1000000000 0 gpu.pcie_bytes{device="0"} 6000000
        1000000000 0 gpu.pcie_bytes{device="1"} 3000000
        1000000000 0 gpu.power{device="0"} 512.4
        1000000000 0 gpu.power{device="1"} 698.1
        1000000000 0 gpu.sm_active{device="0"} 0.163
        1000000000 0 gpu.sm_active{device="1"} 0.9
        1000000000 0 gpu.sm_clock{device="0"} 1980000000
        1000000000 0 gpu.sm_clock{device="1"} 1410000000
        1000000000 0 gpu.sm_occupancy{device="0"} 0.088
        1000000000 0 gpu.sm_occupancy{device="1"} 0.41
        1000000000 0 gpu.temperature{device="0"} 58
        1000000000 0 gpu.temperature{device="1"} 71
        1000000000 0 gpu.tensor_active{device="0"} 0.011
        1000000000 0 gpu.tensor_active{device="1"} 0.52
        1000000000 0 gpu.throttle_reasons{device="0"} 0
        1000000000 0 gpu.throttle_reasons{device="1"} 68
        2000000000 0 gpu.busy{device="0"} 1
        2000000000 0 gpu.dram_active{device="0"} 0.718
        2000000000 0 gpu.pcie_bytes{device="0"} 5000000
        2000000000 0 gpu.power{device="0"} 514.77
        2000000000 0 gpu.sm_active{device="0"} 0.157
        2000000000 0 gpu.sm_clock{device="0"} 1980000000
        2000000000 0 gpu.sm_occupancy{device="0"} 0.085
        2000000000 0 gpu.temperature{device="0"} 58
        2000000000 0 gpu.tensor_active{device="0"} 0.009
        2000000000 0 gpu.throttle_reasons{device="0"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="applications_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="display_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="gpu_idle"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_power_brake_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="hw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="sw_power_cap"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="sw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="0",reason="sync_boost"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="applications_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="display_clocks_setting"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="gpu_idle"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_power_brake_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="hw_thermal_slowdown"} 1
        2000000000 0 gpu.throttle_share{device="1",reason="sw_power_cap"} 1
        2000000000 0 gpu.throttle_share{device="1",reason="sw_thermal_slowdown"} 0
        2000000000 0 gpu.throttle_share{device="1",reason="sync_boost"} 0
        ! note rows_without_time dcgmi-dmon.txt [] x3 expected a time in each row, found none; rounds of rows are laid a second apart, so that only their order and their mean mean something
    "#]],
    );
}

#[test]
fn dcgmi_dmon_is_read_up_to_the_damage() {
    let text = "#Entity   GPUTL   DRAMA\nID\nGPU 0     99      0.706\nGPU 0     x9      -0.5\nCPU 0     1       1\nGPU 0\nGPU 0     98      0.7\nGPU 0     97      0.";
    check(
        &import_text("dcgmi.txt", text),
        &["sources", "samples"],
        expect![[r#"
        source dcgmi.txt dcgmi_dmon rows=4 unmapped=0 damaged
        1000000000 0 gpu.busy{device="0"} 0.99
        1000000000 0 gpu.dram_active{device="0"} 0.706
        3000000000 0 gpu.busy{device="0"} 0.98
        3000000000 0 gpu.dram_active{device="0"} 0.7
        ! note other_entities dcgmi.txt [] x1 expected rows of GPUs, found rows of other entities (CPUs, switches, links) too; they are left out
        ! note rows_without_time dcgmi.txt [] x3 expected a time in each row, found none; rounds of rows are laid a second apart, so that only their order and their mean mean something
        ! warning damaged_row dcgmi.txt [line 6] x1 expected 2 values behind the entity, found something else; the row is left out
        ! warning impossible_value dcgmi.txt [] x1 expected values of zero or more, found others (first in `gpu.dram_active`); they are left out
        ! warning line_cut dcgmi.txt [line 8] x1 expected a line end, found the end of the text; the last row is left out
        ! warning unreadable_cell dcgmi.txt [] x1 expected a number, found something else; the value is left out
    "#]],
    );
}

#[test]
fn exporters_series_are_the_devices_own() {
    check(
        &import(&[data("gpu/amd.prom")]),
        &["subject", "sources", "samples"],
        expect![[r#"
        subject  |  |  |  | AMD Instinct MI300X | recorded
        form  |  |  | 
        source amd.prom prometheus_text rows=6 unmapped=1
        0 0 gpu.busy{device="0"} 0.93
        0 0 gpu.busy{device="1"} 0.57
        0 0 gpu.dram_active{device="0"} 0.41
        0 0 gpu.memory_used{device="0"} 167772160000
        0 0 gpu.power{device="0"} 612
        0 0 gpu.tensor_active{device="0"} 0.125
        ! note unmapped_families amd.prom [] x1 metric families without a signal here, left out: gpu_ecc_correct_total
    "#]],
    );
    check(
        &import(&[data("gpu/dcgm.prom")]),
        &["subject", "sources", "samples"],
        expect![[r#"
            subject  |  |  |  | NVIDIA H100 80GB HBM3 | recorded
            form  |  |  | 
            source dcgm.prom prometheus_text rows=24 unmapped=1
            1793700762500000000 0 gpu.busy{device="0"} 0.57
            1793700762500000000 0 gpu.busy{device="1"} 0.97
            1793700762500000000 0 gpu.dram_active{device="0"} 0.706
            1793700762500000000 0 gpu.dram_active{device="1"} 0.31
            1793700762500000000 0 gpu.memory_used{device="0"} 74807508992
            1793700762500000000 0 gpu.pcie_bytes{device="0"} 6000000
            1793700762500000000 0 gpu.sm_active{device="0"} 0.163
            1793700762500000000 0 gpu.sm_active{device="node-2:0"} 0.5
            1793700762500000000 0 gpu.sm_clock{device="0"} 1980000000
            1793700762500000000 0 gpu.sm_clock{device="1"} 1410000000
            1793700762500000000 0 gpu.throttle_reasons{device="1"} 36
            1793700762500000000 0 server.scrape_time{engine="0",replica="0"} 0.004
            1793700763500000000 0 gpu.busy{device="0"} 0.59
            1793700763500000000 0 gpu.busy{device="1"} 0.97
            1793700763500000000 0 gpu.dram_active{device="0"} 0.706
            1793700763500000000 0 gpu.dram_active{device="1"} 0.31
            1793700763500000000 0 gpu.memory_used{device="0"} 74807508992
            1793700763500000000 0 gpu.pcie_bytes{device="0"} 6000000
            1793700763500000000 0 gpu.sm_active{device="0"} 0.157
            1793700763500000000 0 gpu.sm_active{device="node-2:0"} 0.5
            1793700763500000000 0 gpu.sm_clock{device="0"} 1980000000
            1793700763500000000 0 gpu.sm_clock{device="1"} 1410000000
            1793700763500000000 0 gpu.throttle_reasons{device="1"} 4
            1793700763500000000 0 server.scrape_time{engine="0",replica="0"} 0.004
            ! note unmapped_families dcgm.prom [] x1 metric families without a signal here, left out: DCGM_FI_DEV_XID_ERRORS
        "#]],
    );
}

#[test]
fn an_exporter_beside_an_engine_is_no_replica_of_it() {
    let both = import(&[data("gpu/dcgm.prom"), data("vllm-cpu/metrics.prom.gz")]);
    let alone = import(&[data("vllm-cpu/metrics.prom.gz")]);
    assert_eq!(both.manifest.subject.engine, "vllm");
    let labels = |capture: &capture::Capture| -> std::collections::BTreeSet<String> {
        let engine = capture.tables.samples.rows().filter(|row| !capture.text(row.signal).starts_with("gpu."));
        engine.map(|row| capture.text(row.labels).to_string()).collect()
    };
    assert_eq!(labels(&both), labels(&alone));
    let codes: Vec<&str> = both.tables.issues.code.iter().map(|code| both.text(*code)).collect();
    assert!(!codes.contains(&"replicas_told_apart"), "{codes:?}");
}

#[test]
fn no_truncation_of_telemetry_panics_or_invents_a_value() {
    for name in ["gpu/nvidia-smi.csv", "gpu/dmon.txt", "gpu/dcgmi-dmon.txt"] {
        let whole = fs::read(data(name)).unwrap();
        let all = ingest::read_bytes(name, &whole, &Options::default());
        let told = |capture: &capture::Capture| -> Vec<String> {
            let rows = capture.tables.samples.rows().filter(|row| capture.text(row.signal) != "gpu.throttle_share");
            rows.map(|row| format!("{} {} {} {}", row.t_ns, capture.text(row.signal), capture.text(row.labels), row.value)).collect()
        };
        let all = told(&all);
        for end in (0..whole.len()).step_by(3) {
            let cut = told(&ingest::read_bytes(name, &whole[..end], &Options::default()));
            assert!(cut.iter().all(|row| all.contains(row)), "{name} cut at {end}: {cut:?}");
        }
    }
}
