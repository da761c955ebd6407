//! Evidence from a Prometheus server: which one, which part of its past, and who asks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capture::Capture;
use live::{Address, Authorization, StoredWindow};

use crate::evidence::Pace;
use crate::progress::Progress;
use crate::quantity;

/// Where stored samples come from.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "From a Prometheus server")]
pub(crate) struct StoredArgs {
    /// Take what this server stored of the engine's metrics, as in http://prometheus:9090
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,

    /// Where the window ends: a date with its zone, or epoch seconds [default: now]
    #[arg(long, value_name = "TIME", requires = "prometheus", value_parser = live::parse_time)]
    end: Option<i64>,

    /// Ask for values at steps instead of the samples as stored; only for servers that cannot hand those out
    #[arg(long, value_name = "TIME", requires = "prometheus", value_parser = quantity::duration)]
    step: Option<Duration>,

    /// Labels that tell the engine's series from others, as in 'job="vllm"'
    #[arg(long = "match", value_name = "LABELS", requires = "prometheus", default_value = "", hide_default_value = true)]
    matchers: String,

    /// Where a bearer token stands: env:NAME or file:PATH
    #[arg(long, value_name = "PLACE", requires = "prometheus", conflicts_with = "prometheus_basic")]
    prometheus_bearer: Option<String>,

    /// Where user:password stands: env:NAME or file:PATH
    #[arg(long, value_name = "PLACE", requires = "prometheus")]
    prometheus_basic: Option<String>,
}

/// Reads the window, if a server is named.
pub(crate) fn read(args: &StoredArgs, pace: Pace) -> anyhow::Result<Option<Capture>> {
    let Some(server) = &args.prometheus else { return Ok(None) };
    let server = Address::base(server)?;
    let authorization = match (&args.prometheus_bearer, &args.prometheus_basic) {
        (Some(place), _) => Some(Authorization::bearer(place)?),
        (_, Some(place)) => Some(Authorization::basic(place)?),
        _ => None,
    };
    let end_ns = args.end.unwrap_or_else(now_ns);
    let length_ns = i64::try_from(pace.stored_window().as_nanos()).unwrap_or(i64::MAX);
    let window = StoredWindow {
        server,
        matchers: args.matchers.clone(),
        start_ns: end_ns.saturating_sub(length_ns),
        end_ns,
        step: args.step,
        authorization,
    };
    let progress = Progress::new();
    let show = |asked: live::Asked| {
        let message = format!("{} answers, {} samples", asked.query_count, asked.sample_count);
        progress.show(&message, asked.done_per_mille, 1000);
    };
    Ok(Some(live::read_stored(&window, &show)?))
}

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
