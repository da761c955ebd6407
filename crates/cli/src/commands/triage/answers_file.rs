//! Answers from a file: the questions come in the order of the path, and all answers count.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::triage::{Answer, QUESTIONS, Triage, is_settled, parse, question};
use anyhow::{Context as _, bail};
use capture::signals::edit_distance;

use super::{Ended, judge};

/// Larger files hold no answers.
const MAX_BYTES: u64 = 1 << 20;

/// Walks the path with the answers of a file. A question the file does not answer is one whose answer is not known.
pub(super) fn walk(path: &Path, symptom: Option<&str>) -> anyhow::Result<Ended> {
    let mut answers = read(path)?;
    let place = path.display();
    let own = answers.remove("symptom");
    let Some(symptom) = symptom.or(own.as_deref()) else {
        bail!("`{place}`: expected `symptom = \"...\"` or --symptom, found neither");
    };
    let Some(mut triage) = Triage::new(symptom) else { bail!("`{place}`: `{symptom}` is no symptom") };
    for id in answers.keys() {
        refuse_unknown(id).with_context(|| format!("could not use `{place}`"))?;
    }
    let mut settled = None;
    let mut asked = 0;
    while let Some(question) = triage.next() {
        asked += 1;
        let typed = answers.remove(question.id).unwrap_or_else(|| "-".into());
        let answer = parse(question, &typed).map_err(|why| anyhow::anyhow!("`{place}`: {}: {why}", question.id))?;
        let says = answer != Answer::Unknown;
        triage.put(question, answer);
        if says && settled.is_none() && is_settled(&judge(&triage)) {
            settled = Some(question.id);
        }
    }
    let mut told = format!("asked {asked} questions of the path of {}, {} answered", triage.symptom(), triage.known_count());
    told.push_str(&settled.map_or_else(|| "; not settled\n".into(), |id| format!("; settled by `{id}`\n")));
    if !answers.is_empty() {
        let ids: Vec<&str> = answers.keys().map(String::as_str).collect();
        told.push_str(&format!("not asked on this path, so not used: {}\n", ids.join(", ")));
    }
    told.push('\n');
    Ok(Ended { triage: Some(triage), told })
}

fn read(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let place = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("could not read `{place}`"))?.len();
    if size > MAX_BYTES {
        bail!("`{place}` is larger than 1 MiB, so it holds no answers");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read `{place}`"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        anyhow::anyhow!("`{place}`, line {line}: expected `question = answer`, found a mistake: {}", error.message().replace('\n', " "))
    })?;
    table.into_iter().map(|(id, value)| Ok((id.clone(), plain(&id, value).with_context(|| format!("could not use `{place}`"))?))).collect()
}

fn plain(id: &str, value: toml::Value) -> anyhow::Result<String> {
    Ok(match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        other => bail!("{id}: expected a number, a word or yes and no, found {}", other.type_str()),
    })
}

fn refuse_unknown(id: &str) -> anyhow::Result<()> {
    if question(id).is_some() {
        return Ok(());
    }
    let nearest = QUESTIONS.iter().min_by_key(|known| edit_distance(known.id, id)).map_or("", |known| known.id);
    bail!("no question is called `{id}`; the nearest is `{nearest}`")
}
