//! Sizes of matrix products and attention, from the inputs that the profiler records with `record_shapes`.
//!
//! Only operators whose arithmetic follows from the sizes of their inputs are read; what they have in common goes into
//! `key=value` text that no version of a framework changes. Layouts are those of the operators' own signatures (PyTorch
//! `native_functions.yaml`, flash-attn `flash_attn_interface.py`, vLLM `attention/layer.py`).

use std::fmt::Write as _;

use super::numbers::integer;
use super::scan::{Cursor, Step};

/// Inputs looked at; masks and options stand behind them.
const INPUTS: usize = 4;
/// Dimensions of an input.
const DIMENSIONS: usize = 5;
/// Options of an operator looked at.
const OPTIONS: usize = 14;
/// Sizes beyond this are damage.
const MAX_SIZE: i64 = 1 << 40;

/// How the inputs of an operator are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `[m, k] x [k, n]`, both perhaps with a batch before; the place of the first.
    Product(usize),
    /// `[.., k] x [n, k]`.
    Linear,
    /// Queries, keys, values as `[batch, length, heads, width]`, with the places of `causal` and of the window.
    LengthFirst(usize, Option<usize>),
    /// The same as `[batch, heads, length, width]`.
    HeadsFirst(usize),
    /// Queries, keys, values as `[tokens, heads, width]`: what they attend to is not among the inputs.
    Tokens,
}

/// Operators by name, without what stands before the last `::`.
const OPERATORS: &[(&[u8], Layout)] = &[
    (b"mm", Layout::Product(0)),
    (b"bmm", Layout::Product(0)),
    (b"_scaled_mm", Layout::Product(0)),
    (b"_int_mm", Layout::Product(0)),
    (b"addmm", Layout::Product(1)),
    (b"baddbmm", Layout::Product(1)),
    (b"cutlass_scaled_mm", Layout::Product(1)),
    (b"linear", Layout::Linear),
    (b"rocm_unquantized_gemm_impl", Layout::Linear),
    (b"_flash_attention_forward", Layout::LengthFirst(8, None)),
    (b"_efficient_attention_forward", Layout::LengthFirst(9, None)),
    (b"_flash_attn_forward", Layout::LengthFirst(5, Some(6))),
    (b"scaled_dot_product_attention", Layout::HeadsFirst(5)),
    (b"_scaled_dot_product_flash_attention", Layout::HeadsFirst(4)),
    (b"_scaled_dot_product_efficient_attention", Layout::HeadsFirst(6)),
    (b"_scaled_dot_product_cudnn_attention", Layout::HeadsFirst(6)),
    (b"unified_attention", Layout::Tokens),
    (b"unified_attention_with_output", Layout::Tokens),
];

fn layout(name: &[u8]) -> Option<Layout> {
    let start = memchr::memmem::rfind(name, b"::")? + 2;
    OPERATORS.iter().find(|(operator, _)| *operator == &name[start..]).map(|(_, layout)| *layout)
}

/// True for an operator whose inputs say what it computes.
#[inline]
pub(super) fn tell(name: &[u8]) -> bool {
    layout(name).is_some()
}

/// True where the text before an event's duration names such an operator.
pub(super) fn are_near(text: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(text, b"::") else { return false };
    let end = memchr::memchr(b'"', &text[at..]).map_or(text.len(), |length| at + length);
    tell(&text[at..end])
}

/// What an operator computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToldSizes {
    /// `matmul`, `attention`.
    pub(super) op: &'static str,
    /// See `op_sizes` in the capture's tables.
    pub(super) sizes: String,
    /// Number format of the inputs, empty where it has no short name.
    pub(super) dtype: &'static str,
}

/// The inputs as they are told.
#[derive(Default)]
struct Inputs<'a> {
    dims: [([i64; DIMENSIONS], usize); INPUTS],
    types: [&'a [u8]; INPUTS],
    options: [&'a [u8]; OPTIONS],
}

/// Reads the arguments that stand at `at`; nothing where they tell no sizes, or sizes that do not fit each other.
pub(super) fn read(name: &[u8], bytes: &[u8], at: usize) -> Option<ToldSizes> {
    let layout = layout(name)?;
    let inputs = Inputs::read(&mut Cursor::new(bytes, at)).ok()?;
    let (op, first, sizes) = match layout {
        Layout::Product(first) => ("matmul", first, inputs.product(first)?),
        Layout::Linear => ("matmul", 0, inputs.linear()?),
        Layout::LengthFirst(causal, window) => ("attention", 0, inputs.attention([1, 2], causal, window)?),
        Layout::HeadsFirst(causal) => ("attention", 0, inputs.attention([2, 1], causal, None)?),
        Layout::Tokens => ("attention", 0, inputs.tokens()?),
    };
    Some(ToldSizes { op, sizes, dtype: dtype(inputs.types[first]) })
}

impl<'a> Inputs<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Step<Self> {
        let mut inputs = Self::default();
        cursor.expect(b'{', "an object")?;
        if cursor.take(b'}') {
            return Ok(inputs);
        }
        loop {
            let key = cursor.text()?.raw;
            cursor.expect(b':', "`:`")?;
            match key {
                b"Input Dims" | b"Input dims" => inputs.read_dims(cursor)?,
                b"Input type" => read_texts(cursor, &mut inputs.types)?,
                b"Concrete Inputs" => read_texts(cursor, &mut inputs.options)?,
                _ => cursor.skip()?,
            }
            if cursor.take(b'}') {
                return Ok(inputs);
            }
            cursor.expect(b',', "`,` or `}`")?;
        }
    }

    fn read_dims(&mut self, cursor: &mut Cursor<'a>) -> Step<()> {
        let dims = &mut self.dims;
        each(cursor, |at, cursor| {
            let Some((sizes, count)) = dims.get_mut(at).filter(|_| cursor.peek() == Some(b'[')) else { return cursor.skip() };
            each(cursor, |dimension, cursor| {
                // A list of tensors has lists here, and is no input of these operators.
                if cursor.peek() == Some(b'[') {
                    return cursor.skip();
                }
                let size = integer(cursor.scalar()?.trim_ascii()).filter(|size| (0..=MAX_SIZE).contains(size));
                if let (Some(place), Some(size)) = (sizes.get_mut(dimension), size) {
                    *place = size;
                    *count = dimension + 1;
                }
                Ok(())
            })
        })
    }

    fn dims(&self, at: usize) -> &[i64] {
        self.dims.get(at).map_or(&[], |(sizes, count)| &sizes[..*count])
    }

    fn product(&self, first: usize) -> Option<String> {
        let (batch, [m, k], [inner, n]) = match (self.dims(first), self.dims(first + 1)) {
            ([m, k], [inner, n]) => (1, [*m, *k], [*inner, *n]),
            ([batch, m, k], [_, inner, n]) => (*batch, [*m, *k], [*inner, *n]),
            _ => return None,
        };
        (k == inner).then(|| format!("b={batch} m={m} n={n} k={k}"))
    }

    fn linear(&self) -> Option<String> {
        let ([rows @ .., k], [n, inner]) = (self.dims(0), self.dims(1)) else { return None };
        let m = rows.iter().try_fold(1i64, |m, rows| m.checked_mul(*rows))?;
        (k == inner).then(|| format!("b=1 m={m} n={n} k={k}"))
    }

    /// `[length, heads]` are the places of these two.
    fn attention(&self, [length, heads]: [usize; 2], causal: usize, window: Option<usize>) -> Option<String> {
        let (q, k, v) = (self.dims(0), self.dims(1), self.dims(2));
        // With three dimensions requests lie behind one another, and their own lengths are not told.
        if q.len() != 4 || k.len() != 4 || v.len() != 4 || q[0] != k[0] || q[3] != k[3] {
            return None;
        }
        let is_causal = self.options.get(causal).is_some_and(|option| matches!(*option, b"True" | b"true" | b"1" | b"2"));
        let mut sizes = format!(
            "b={} hq={} hkv={} q={} kv={} d={} dv={} causal={}",
            q[0],
            q[heads],
            k[heads],
            q[length],
            k[length],
            q[3],
            v[3],
            u8::from(is_causal)
        );
        let left = window.and_then(|at| integer(self.options.get(at)?)).filter(|left| *left >= 0);
        if let Some(left) = left {
            let _ = write!(sizes, " window={}", left.saturating_add(1));
        }
        Some(sizes)
    }

    fn tokens(&self) -> Option<String> {
        let ([tokens, heads, width], [_, kv_heads, _]) = (self.dims(0), self.dims(1)) else { return None };
        Some(format!("t={tokens} hq={heads} hkv={kv_heads} d={width}"))
    }
}

/// Calls `take` with the place of each element of the array at the cursor; what is no array is passed over.
fn each<'a>(cursor: &mut Cursor<'a>, mut take: impl FnMut(usize, &mut Cursor<'a>) -> Step<()>) -> Step<()> {
    if !cursor.take(b'[') {
        return cursor.skip();
    }
    for at in 0.. {
        if cursor.take(b']') {
            break;
        }
        if at > 0 {
            cursor.expect(b',', "`,` or `]`")?;
        }
        take(at, cursor)?;
    }
    Ok(())
}

fn read_texts<'a, const N: usize>(cursor: &mut Cursor<'a>, texts: &mut [&'a [u8]; N]) -> Step<()> {
    each(cursor, |at, cursor| {
        let Some(place) = texts.get_mut(at).filter(|_| cursor.peek() == Some(b'"')) else { return cursor.skip() };
        *place = cursor.long_text()?.raw;
        Ok(())
    })
}

fn dtype(text: &[u8]) -> &'static str {
    match text {
        b"c10::BFloat16" => "bf16",
        b"c10::Half" => "f16",
        b"float" => "f32",
        b"double" => "f64",
        b"c10::Float8_e4m3fn" | b"c10::Float8_e4m3fnuz" => "f8e4m3",
        b"c10::Float8_e5m2" | b"c10::Float8_e5m2fnuz" => "f8e5m2",
        b"signed char" => "i8",
        b"unsigned char" => "u8",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, args: &str, expected: Option<(&str, &str, &str)>) {
        let found = read(name.as_bytes(), args.as_bytes(), 0);
        assert_eq!(found.as_ref().map(|found| (found.op, found.sizes.as_str(), found.dtype)), expected, "{name} {args}");
    }

    #[test]
    fn products_tell_their_sizes() {
        let types = r#""Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]"#;
        check(
            "aten::mm",
            &format!(r#"{{"External id": 3, "Input Dims": [[32, 2880], [2880, 201088]], {types}}}"#),
            Some(("matmul", "b=1 m=32 n=201088 k=2880", "bf16")),
        );
        check(
            "aten::addmm",
            r#"{"Input Dims": [[512], [141, 512], [512, 2048], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"]}"#,
            Some(("matmul", "b=1 m=141 n=2048 k=512", "f32")),
        );
        check("aten::bmm", r#"{"Input Dims": [[16, 5, 64], [16, 64, 7]]}"#, Some(("matmul", "b=16 m=5 n=7 k=64", "")));
        check("aten::linear", r#"{"Input Dims": [[2, 3, 64], [128, 64], []]}"#, Some(("matmul", "b=1 m=6 n=128 k=64", "")));
    }

    #[test]
    fn attention_tells_lengths_heads_and_window() {
        let four = r#""Input Dims": [[16, 559, 16, 64], [16, 600, 4, 64], [16, 600, 4, 64], [], []], "Input type": ["c10::Half"]"#;
        check(
            "aten::_flash_attention_forward",
            &format!(r#"{{{four}, "Concrete Inputs": ["", "", "", "", "", "559", "559", "0.", "True", "False"]}}"#),
            Some(("attention", "b=16 hq=16 hkv=4 q=559 kv=600 d=64 dv=64 causal=1", "f16")),
        );
        check(
            "flash_attn::_flash_attn_forward",
            &format!(r#"{{{four}, "Concrete Inputs": ["", "", "", "0.", "0.125", "True", "127", "0"]}}"#),
            Some(("attention", "b=16 hq=16 hkv=4 q=559 kv=600 d=64 dv=64 causal=1 window=128", "f16")),
        );
        check(
            "aten::scaled_dot_product_attention",
            r#"{"Input Dims": [[2, 8, 1, 64], [2, 8, 90, 64], [2, 8, 90, 64]], "Concrete Inputs": ["", "", "", "", "0.", "False"]}"#,
            Some(("attention", "b=2 hq=8 hkv=8 q=1 kv=90 d=64 dv=64 causal=0", "")),
        );
        check(
            "vllm::unified_attention_with_output",
            r#"{"Input Dims": [[888, 8, 64], [888, 1, 64], [888, 1, 64], [888, 8, 64], []]}"#,
            Some(("attention", "t=888 hq=8 hkv=1 d=64", "")),
        );
    }

    #[test]
    fn sizes_that_do_not_fit_are_none() {
        check("aten::mm", r#"{"Input Dims": [[32, 2880], [64, 7]]}"#, None);
        check("aten::mm", r#"{"Input Dims": [[32, -2880], [2880, 7]]}"#, None);
        check("aten::mm", r#"{"Input Dims": [[32, 2880], 7]}"#, None);
        check("aten::mm", r#"{"Input Dims": [[[1, 2]], [2880, 7]]}"#, None);
        check("aten::mm", r#"{"Input Dims": [[32"#, None);
        check("aten::mm", r"{}", None);
        check("aten::add", r#"{"Input Dims": [[32, 2880], [2880, 7]]}"#, None);
    }

    #[test]
    fn operators_are_known_before_their_event_is_read() {
        assert!(are_near(br#", "name": "aten::mm", "pid": 7, "tid": 8, "ts": 3.1, "#));
        assert!(!are_near(br#", "name": "aten::add", "pid": 7, "#) && !are_near(br#", "name": "mm", "#) && !are_near(b"::"));
    }
}
