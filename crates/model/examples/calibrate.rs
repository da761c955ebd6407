//! Fits the published calibration: prints `data/calibration.json` from a table of measured runs.
//!
//! `cargo run --release -p model --example calibrate -- RUNS.csv > crates/model/data/calibration.json`

#![allow(clippy::print_stdout)]

use std::error::Error;

use model::calibration::{Observation, Origin, Stored, StoredKind, calibrate};
use model::evaluation::read;
use model::models::Kind;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("expected the path of a table of runs")?;
    let runs = read(&std::fs::read_to_string(path)?)?;
    let kind = |kind: Kind| -> Result<StoredKind, Box<dyn Error>> {
        let rows: Vec<&Observation> = runs.observations.iter().filter(|row| row.kind == kind && !row.disaggregated).collect();
        Ok(StoredKind::from(&calibrate(&rows, Origin::Published)?))
    };
    let stored = Stored {
        schema: "inferoscope.calibration/1".to_owned(),
        source: "fitted on the measured runs of aiconfigurator-core 0.12.0 (Apache-2.0), prefill and decode together".to_owned(),
        dense: kind(Kind::Dense)?,
        experts: kind(Kind::Experts)?,
        latent: kind(Kind::Latent)?,
    };
    println!("{}", serde_json::to_string_pretty(&stored)?);
    Ok(())
}
