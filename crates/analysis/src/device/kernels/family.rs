//! The name of a kernel without what changes between versions, shapes and compilers, so that two recordings can be compared.

/// Longest family name kept, bytes.
const LONGEST: usize = 96;

/// Family of a kernel: its function without namespaces, return type, template arguments, parameters and tile sizes; of the
/// framework's generic kernels also the functor, since `elementwise_kernel` alone says nothing.
pub fn family(name: &str) -> String {
    let head = function_of(name);
    let base = without_numbers(without_tile(head));
    let mut family = if base.is_empty() { cut(name, LONGEST).to_string() } else { cut(base, LONGEST).to_string() };
    if is_generic(base)
        && let Some(functor) = functor(name)
    {
        family.push('(');
        family.push_str(cut(functor, LONGEST));
        family.push(')');
    }
    family
}

fn cut(text: &str, at_most: usize) -> &str {
    let mut end = text.len().min(at_most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The last identifier before the parameters or template arguments at the outermost level.
fn function_of(name: &str) -> &str {
    let name = name.trim().trim_end_matches(".kd");
    let name = name.strip_prefix("void ").unwrap_or(name);
    let (mut depth, mut start, mut end) = (0usize, 0usize, name.len());
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            _ if depth == 0 && name[at..].starts_with("(anonymous namespace)") => {
                at += "(anonymous namespace)".len();
                continue;
            }
            b'<' | b'(' => {
                if depth == 0 && end == name.len() {
                    end = at;
                }
                depth += 1;
            }
            b'>' | b')' => depth = depth.saturating_sub(1),
            // Behind `a<b>::` or a return type another name follows.
            b':' | b' ' if depth == 0 && at + 1 < bytes.len() => {
                start = at + 1;
                end = name.len();
            }
            _ => {}
        }
        at += 1;
        while !name.is_char_boundary(at) {
            at += 1;
        }
    }
    name.get(start..end).unwrap_or(name)
}

/// Cuts where the first tile size stands: `192x192`, `MT16x16x256`, `tilesize64x256x8`, `t128x16x256u2`.
fn without_tile(base: &str) -> &str {
    let mut from = 0;
    for token in base.split('_') {
        if from > 0 && is_tile(token) {
            return base[..from].trim_end_matches('_');
        }
        from += token.len() + 1;
    }
    base
}

/// Numbers with `x` between them and at most a short word before.
fn is_tile(token: &str) -> bool {
    let rest = token.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    token.len() - rest.len() <= 13
        && rest.split_once('x').is_some_and(|(first, second)| {
            !first.is_empty()
                && first.bytes().all(|byte| byte.is_ascii_digit())
                && second.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
        })
}

/// Without a running number at the end and the architecture at the start: `triton_poi_fused_add_3`, `sm90_xmma_gemm`.
fn without_numbers(base: &str) -> &str {
    let end = base.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = if end.ends_with('_') && end.len() < base.len() { end.trim_end_matches('_') } else { base };
    match base.split_once('_') {
        Some((first, rest)) if first.len() >= 4 && first.starts_with("sm") && first[2..].bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => base,
    }
}

fn is_generic(base: &str) -> bool {
    ["elementwise_kernel", "reduce_kernel", "kernel", "Kernel2", "Kernel", "device_kernel", "kentry"].iter().any(|end| base.ends_with(end))
        && ["elementwise", "reduce_kernel", "Kernel2", "device_kernel", "kentry"].iter().any(|word| base.contains(word))
}

/// The identifier among the template arguments that says what a generic kernel computes.
fn functor(name: &str) -> Option<&str> {
    let arguments = &name[name.find('<')? + 1..];
    let identifiers = arguments.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.len() > 3);
    let mut best: Option<(usize, &str)> = None;
    for word in identifiers {
        let rank = if word.ends_with("_kernel_cuda")
            || word.ends_with("KernelImpl")
            || (word.ends_with("_kernel_impl") && word != "gpu_kernel_impl")
        {
            3
        } else if word.starts_with("CUDAFunctor_")
            || (word.ends_with("Ops") && word != "ReduceOps")
            || (word.ends_with("Functor") && !is_wrapper(word))
        {
            2
        } else if word.contains("gemm") || word.contains("Fwd") || word.contains("Bwd") {
            2
        } else {
            0
        };
        if rank > best.map_or(0, |(rank, _)| rank) {
            best = Some((rank, word));
        }
    }
    best.map(|(_, word)| without_tile(word))
}

fn is_wrapper(word: &str) -> bool {
    ["BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor", "OpMathFunctor"].contains(&word)
}
