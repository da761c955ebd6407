//! `inferoscope tap`: a proxy that sees when requests and their answers pass.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use live::{Address, TapPlan, Tapped};
use report::clean;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::{destination, out};

/// Pass requests on to a server and record when they pass
///
/// Point callers at --listen instead of the server. Bytes pass unchanged; recorded are times, counts and salted hashes of prompt
/// prefixes, never texts, headers or credentials. HTTP/2 and upgraded connections pass without being recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 recorded, 2 could not run, or the recording could not be written")]
pub(crate) struct Args {
    /// Where callers connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,

    /// The server, as in http://127.0.0.1:8000
    #[arg(long, value_name = "URL")]
    upstream: String,

    /// Where the capture grows [default: inferoscope-tap-TIME.capture]
    #[arg(long, value_name = "X.capture")]
    out: Option<PathBuf>,

    /// Add x-request-id and traceparent to requests that lack them, so that client, proxy and server can be joined
    #[arg(long)]
    add_ids: bool,

    /// Let other machines connect; needs --token
    #[arg(long, requires = "token")]
    allow_remote: bool,

    /// Where the token stands that callers must send in x-inferoscope-token: env:NAME or file:PATH
    #[arg(long, value_name = "PLACE")]
    token: Option<String>,
}

/// Passes requests on until Ctrl-C, and says what passed.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    static STOP: AtomicBool = AtomicBool::new(false);
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        bail!("`{}` can be reached from other machines; expected a loopback address, or --allow-remote with --token", args.listen);
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("inferoscope-tap-{seconds}.capture")));
    destination::check_capture(&out, &[])?;
    let plan = TapPlan {
        listen: args.listen,
        upstream: Address::base(&args.upstream)?,
        out,
        adds_ids: args.add_ids,
        token: args.token.as_deref().map(live::secret).transpose()?,
    };
    live::on_interrupt(|exit_code| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(exit_code);
        }
    })?;
    let path = clean::line(&plan.out.display().to_string());
    let start = |told: Tapped| {
        if let Some(listen) = told.listen {
            Progress::new().note(&format!("passing http://{listen} on, recording to {path}; Ctrl-C ends"));
        }
    };
    let told = live::tap(&plan, &STOP, &start)?;
    out::print(&summary(&told, &path))?;
    Ok(Exit::Done)
}

fn summary(told: &Tapped, path: &str) -> String {
    let mut text = format!(
        "recorded {path}: {} completions with {} pieces of streams, {} other requests on {} connections\n\
         from read to written: p50 {:.1} us, p99 {:.1} us per piece of an answer (a slow reader counts)\n",
        told.request_count,
        told.chunk_count,
        told.other_count,
        told.connection_count,
        told.delay_p50_ns as f64 / 1e3,
        told.delay_p99_ns as f64 / 1e3
    );
    if told.unseen_count > 0 {
        text.push_str(&format!("{} connections passed unseen (HTTP/2, upgrades, or a framing that is not clear)\n", told.unseen_count));
    }
    if told.dropped_count > 0 {
        text.push_str(&format!("{} rows were dropped, because the disk could not keep up\n", told.dropped_count));
    }
    text
}
