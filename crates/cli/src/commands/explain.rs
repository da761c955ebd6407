//! `inferoscope explain`: the manual page of one failure mode, or the list of all.

use analysis::check::Check;
use analysis::checks::CHECKS;
use analysis::contract::Layer;
use anyhow::bail;
use capture::signals::edit_distance;
use report::views;

use crate::exit::Exit;
use crate::out;
use crate::screen::Screen;

/// Show the page of one failure mode, or list them all
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the failure mode, as reports print it
    check: Option<String>,
}

/// Prints the page or the list.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    let text = match &args.check {
        None => list(CHECKS),
        Some(id) => match CHECKS.iter().find(|check| check.id == id) {
            Some(check) => page(check, screen),
            None => match nearest(CHECKS, id) {
                Some(known) => bail!("no failure mode is called `{id}`; the nearest is `{known}`"),
                None => bail!("no failure mode is called `{id}`; `inferoscope explain` lists those this version tests"),
            },
        },
    };
    out::print(&text)?;
    Ok(Exit::Done)
}

fn page(check: &Check, screen: &Screen) -> String {
    let page = format!("# {} ({})\n\n{}\n", check.id, check.layer.as_str(), check.page.trim());
    views::explain::render(&page, screen.options(None))
}

/// One line per failure mode, by layer in the seed's order.
fn list(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for layer in Layer::ALL {
        let mut of_layer = checks.iter().filter(|check| check.layer == layer).peekable();
        if of_layer.peek().is_some() {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(layer.as_str());
            text.push('\n');
        }
        for check in of_layer {
            text.push_str(&format!("  {:width$}  {}\n", check.id, summary(check.page)));
        }
    }
    text
}

/// The first paragraph of a page, on one line.
fn summary(page: &str) -> String {
    let lines = page.trim_start().lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// The id closest to what was typed; none when more than a third of it would have to change.
fn nearest(checks: &[Check], id: &str) -> Option<&'static str> {
    let id = id.replace('-', "_");
    let distance = |known: &str| edit_distance(known, &id);
    checks.iter().map(|check| check.id).min_by_key(|known| (distance(known), *known)).filter(|known| distance(known) * 3 <= known.len())
}
