//! `inferoscope loop`: start a server, measure, diagnose, apply one change, measure again, verify.

mod command;
mod measure;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analysis::apply::{self, TypedChange};
use analysis::contract::Report;
use analysis::round::{ROUND_SCHEMA, Round, RoundChange, RoundEnd, proposals};
use analysis::{DiagnoseOptions, diagnose, verify};
use anyhow::{Context as _, bail};
use live::Address;
use report::views;

use self::command::StartCommand;
use self::measure::{Measured, Setting};
use super::load::asking::AskArgs;
use super::record;
use crate::exit::Exit;
use crate::ledger_file::LedgerArgs;
use crate::screen::Screen;
use crate::{atomic_file, out, quantity};

/// Start a server, measure, diagnose, change one flag, measure again, verify
///
/// The server is started as given (no shell in between), waited for, and put under the load while its metrics, log and threads
/// are recorded. The change that the verdict proposes is made in the command line, where it is a flag of that engine; the
/// same load is sent again, and the prediction is held against what came. The folder keeps the evidence of both runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: those of verify (0 confirmed, 1 refuted, 3 inconclusive, 4 not comparable); where nothing was \
                        changed, those of diagnose (0 healthy, 1 localized, 3 evidence insufficient); 2 could not run")]
pub(crate) struct Args {
    /// The command that starts the server, as in 'vllm serve MODEL --max-num-seqs 8 --port 8000'
    #[arg(long, value_name = "COMMAND", value_parser = command::parse)]
    start: StartCommand,

    /// Base address at which it then answers, as in http://127.0.0.1:8000
    #[arg(long, value_name = "URL")]
    url: String,

    /// Change this instead of what the verdict proposes: --max-num-seqs=64, or a switch alone
    #[arg(long, value_name = "FLAG=VALUE", allow_hyphen_values = true, conflicts_with = "hypothesis")]
    change: Option<TypedChange>,

    /// Make the change of this hypothesis of the diagnosis [default: the first of the cause that is a flag]
    #[arg(long, value_name = "ID")]
    hypothesis: Option<String>,

    /// Make the change without asking
    #[arg(long)]
    yes: bool,

    /// Folder for the evidence of both runs; new or empty [default: inferoscope-loop-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Longest wait for the server to answer after its start
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = quantity::duration)]
    ready: Duration,

    /// More metrics to read beside the server's own /metrics, as of an exporter of GPU figures; may be given more than once
    #[arg(long, value_name = "URL")]
    metrics: Vec<Address>,

    /// Print the round as one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    ledger: LedgerArgs,

    #[command(flatten)]
    asking: AskArgs,
}

/// Goes round once.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    let server = Address::base(&args.url)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("inferoscope-loop-{}", record::now_s())));
    make_folder(&out)?;
    let setting = Setting {
        server: &server,
        authorization: args.asking.authorization()?,
        tokenizer: args.asking.tokenizer()?,
        asking: &args.asking,
        metrics: &args.metrics,
        ready: args.ready,
        stop: listen_for_interrupts()?,
    };
    let before = measure::run(&setting, &args.start, &out.join("before"))?;
    let mut round = Round {
        schema: ROUND_SCHEMA.into(),
        url: server.to_string(),
        ended: RoundEnd::NothingToChange,
        change: None,
        passed_over: Vec::new(),
        after: None,
        verification: None,
        before: before.as_run(told(args, &before)?),
    };
    let chosen = choose(args, &round.before.report, &mut round.passed_over)?;
    let mut exit = round.before.report.verdict.status.into();
    if let Some((change, edited)) = chosen {
        round.change = Some(change.clone());
        if is_agreed(args, &round, screen)? {
            let after = measure::run(&setting, &edited, &out.join("after"))?;
            let verification = verify(&before.capture, &after.capture, Some(&change.hypothesis));
            super::verify::keep(&args.ledger, &before.capture, &after.capture, &verification)?;
            exit = verification.outcome.into();
            round.after = Some(after.as_run(told(args, &after)?));
            round.verification = Some(verification);
            round.ended = RoundEnd::Verified;
        } else {
            round.ended = RoundEnd::NotAgreed;
        }
    }
    let document = views::json::render_round(&round);
    atomic_file::write(&out.join("loop.json"), document.as_bytes())?;
    out::print(&if args.json { document } else { views::round::render(&round, screen.options(None)) })?;
    Ok(exit)
}

/// The diagnosis of a run, with what became of such predictions before.
fn told(args: &Args, measured: &Measured) -> anyhow::Result<Report> {
    let mut report = diagnose(&measured.capture, &DiagnoseOptions::default());
    report.trust.track_record = args.ledger.read()?.beside(&report);
    Ok(report)
}

/// The folder is made, so that a long measurement does not end with the news that it cannot be.
fn make_folder(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("could not make the folder `{}`", path.display()))?;
    let mut entries = std::fs::read_dir(path).with_context(|| format!("could not read the folder `{}`", path.display()))?;
    if entries.next().is_some() {
        bail!("`{}` is not empty, so nothing is written into it; name another folder", path.display());
    }
    Ok(())
}

/// The first Ctrl-C asks the server to end, upon which the load ends; the second ends everything, and so does the first where
/// no server runs.
fn listen_for_interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    live::on_interrupt(move |exit_code| {
        if flag.swap(true, Ordering::Relaxed) || !live::ask_to_end() {
            live::end_now();
            std::process::exit(exit_code);
        }
    })
    .context("could not listen for interrupts")?;
    Ok(stop)
}

/// The change to make and the command with it; nothing where no proposal is a flag of the command.
fn choose(args: &Args, report: &Report, passed_over: &mut Vec<String>) -> anyhow::Result<Option<(RoundChange, StartCommand)>> {
    let told = |hypothesis: &str, instruction: &str, edited: StartCommand| {
        let change = RoundChange { hypothesis: hypothesis.into(), instruction: instruction.into(), command: edited.shown() };
        Some((change, edited))
    };
    if let Some(typed) = &args.change {
        let edited = args.start.with_words(apply::edit_typed(&args.start.words, typed));
        if edited == args.start {
            bail!("the change leaves the command as it is: {}", args.start.shown());
        }
        let value = typed.value.as_deref().unwrap_or_default();
        let all = report.findings.iter().flat_map(|finding| &finding.hypotheses);
        let same = all.into_iter().find(|stated| stated.change.flag == typed.flag && (stated.change.to == value || typed.value.is_none()));
        let instruction = format!("{} {value}", typed.flag);
        return Ok(told(same.map_or(verify::NO_HYPOTHESIS, |stated| &stated.id), instruction.trim_end(), edited));
    }
    let proposed = match &args.hypothesis {
        None => proposals(report),
        Some(id) => report.findings.iter().flat_map(|finding| &finding.hypotheses).filter(|stated| stated.id == *id).collect(),
    };
    if let (Some(id), true) = (&args.hypothesis, proposed.is_empty()) {
        passed_over.push(format!("The diagnosis has no hypothesis `{id}`"));
    }
    for stated in proposed {
        match apply::edit(&args.start.words, &stated.change) {
            Ok(words) if words != args.start.words => {
                return Ok(told(&stated.id, &stated.change.instruction, args.start.with_words(words)));
            }
            Ok(_) => passed_over.push(format!("{} ({}) leaves the command as it is", stated.id, stated.change.instruction)),
            Err(why) => passed_over.push(format!("{} ({}) is not made: {why}", stated.id, stated.change.instruction)),
        }
    }
    Ok(None)
}

/// Shows what would be done and asks, on a terminal; `--yes` agrees beforehand.
fn is_agreed(args: &Args, round: &Round, screen: &Screen) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    let shown = views::round::render(&Round { ended: RoundEnd::Verified, ..round.clone() }, screen.options(None));
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{shown}\nChange it, and measure again? [y/N] ")?;
    stderr.flush()?;
    let mut answer = Vec::new();
    std::io::stdin().lock().read_until(b'\n', &mut answer).context("could not read the answer")?;
    Ok(matches!(answer.trim_ascii(), b"y" | b"Y" | b"yes"))
}
