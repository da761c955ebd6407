//! Who collects a stream's tokens before they are sent on: the serving layer, or something behind it.

use crate::evidence::Evidence;
use crate::situation::Situation;

/// Words by which a person says that something stands between caller and engine.
const GATEWAYS: [&str; 13] = [
    "gateway",
    "proxy",
    "proxied",
    "nginx",
    "envoy",
    "haproxy",
    "litellm",
    "router",
    "ingress",
    "balancer",
    "traefik",
    "istio",
    "cloudflare",
];

/// Tokens per chunk beyond what one step yields from which a stream is bursty.
const BURSTY: f64 = 1.5;

/// The first token must come later by this share before a buffer is worth looking for.
const LATER: f64 = 0.25;

/// A stream that left the server evenly and arrives in clumps, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clumped {
    /// Time to first token at the inner vantage.
    pub inner_s: f64,
    /// At the client.
    pub client_s: f64,
    /// Gap between the server's tokens, where known.
    pub server_itl_s: Option<f64>,
    /// Tokens per chunk at the client, where known.
    pub chunk_tokens: Option<f64>,
}

/// Something behind the server fills a buffer before it passes anything on. Two signs, either will do: the first token is
/// held for about the time in which the server makes the rest of a chunk, while the server's own gaps are even; or chunks
/// are single tokens in the arm without the gateway.
pub fn behind_server(situation: &Situation<'_>) -> Option<Clumped> {
    let figures = &situation.evidence.figures;
    let typed = |name: &str| figures.typical(name);
    let chunk_tokens = typed("client.chunk_tokens");
    let direct = direct_arm(situation);
    let of_direct = |name: &str| direct.and_then(|arm| arm.figures.typical(name));
    let client_s = typed("client.ttft")?;
    let is_whole = at_once_s(situation).is_some() && (direct.is_some() || names_gateway(situation));
    let before_all = || at_once_s(situation).filter(|_| is_whole).map(|decode_s| (client_s - decode_s).max(0.0));
    let inner_s = typed("server.ttft").or_else(|| of_direct("client.ttft")).or_else(before_all).filter(|inner| *inner < client_s)?;
    let server_itl_s =
        typed("server.itl").or_else(|| typed("server.tpot")).or_else(|| of_direct("client.itl")).or_else(|| of_direct("client.tpot"));
    let held_s = client_s - inner_s;
    let fills = chunk_tokens.zip(server_itl_s).is_some_and(|(tokens, itl)| {
        let fill_s = (tokens - 1.0) * itl;
        tokens >= BURSTY && (0.5..=2.0).contains(&(held_s / fill_s))
    });
    let is_single_without = chunk_tokens.zip(of_direct("client.chunk_tokens")).is_some_and(|(with, without)| with >= BURSTY * without);
    // The first token comes later and the whole request does not: nobody waited to be let in, the stream was held.
    let is_only_late = typed("client.e2e")
        .zip(of_direct("client.e2e"))
        .is_some_and(|(with, without)| held_s > LATER * inner_s && (with - without) < 0.25 * held_s && held_s > 0.1 * without);
    (fills || (is_single_without && held_s > LATER * inner_s) || is_whole || is_only_late).then_some(Clumped {
        inner_s,
        client_s,
        server_itl_s,
        chunk_tokens,
    })
}

/// The first token arrives with the last, although the server makes them one by one: the time decoding takes by the server's
/// own pace, s, where most of the request is decoding and yet next to nothing passes after the first token.
pub fn at_once_s(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let (ttft_s, e2e_s) = figures.typical("client.ttft").zip(figures.typical("client.e2e"))?;
    let token_s = figures.typical("server.tpot").or_else(|| figures.typical("server.itl")).or_else(|| figures.typical("engine.step_time"));
    let decode_s = token_s.zip(figures.anywhere("server.output_tokens")).map(|(token_s, tokens)| token_s * (tokens - 1.0));
    decode_s.filter(|decode_s| *decode_s > 0.5 * e2e_s && e2e_s - ttft_s < 0.1 * decode_s)
}

/// An arm of the same load without the gateway that this one has in front.
pub fn direct_arm<'a>(situation: &Situation<'a>) -> Option<&'a Evidence> {
    let here = situation.evidence;
    situation.other_arms().find(|arm| is_behind(here) && !is_behind(arm) && !crate::arms::load_differs(here, arm))
}

/// True when this arm says in its name or change that a gateway is in front, not that one was taken away.
fn is_behind(arm: &Evidence) -> bool {
    let says = |text: &str| names(text, &GATEWAYS) && !names(text, &WITHOUT);
    says(&arm.changed) || says(&arm.run_name)
}

fn is_direct(arm: &Evidence) -> bool {
    names(&arm.changed, &WITHOUT) || names(&arm.run_name, &WITHOUT)
}

/// Words by which an arm says that what others have in front it has not.
const WITHOUT: [&str; 6] = ["without", "direct", "straight", "no ", "bypass", "skip"];

fn names(text: &str, parts: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    parts.iter().any(|part| text.contains(part))
}

/// True when anything tells of a gateway: figures taken there, its settings, or the words of this arm or of one beside it.
pub fn names_gateway(situation: &Situation<'_>) -> bool {
    let evidence = situation.evidence;
    let is_beside_one = || !is_direct(evidence) && situation.other_arms().any(is_behind);
    let figures = evidence.figures.iter().any(|(name, _)| name.starts_with("gateway."));
    figures
        || !evidence.gateway.is_empty()
        || evidence.settings.get("config.proxy_buffering").is_some()
        || is_behind(evidence)
        || is_beside_one()
}
