//! Dot products for the kernels here, compiled twice: for the plain target and for AVX2 with FMA.

#![allow(unsafe_code)] // one call, guarded by the question whether the CPU has the instructions

/// Rows and columns of a block of dot products: eight sums fit into registers with their operands.
pub(super) const BLOCK: usize = 4;

/// Vector lanes of a sum.
const LANES: usize = 8;

/// What the kernels are compiled for on this CPU.
pub(super) fn instructions() -> &'static str {
    if has_fma() { "AVX2 and FMA" } else { "the plain target" }
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    false
}

/// The dot products of up to [`BLOCK`] rows `a` with the row `b`. All are as long as `b`.
pub(super) fn dots(a: [&[f32]; BLOCK], b: &[f32]) -> [f32; BLOCK] {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the CPU has AVX2 and FMA, as just asked.
        return unsafe { dots_fma(a, b) };
    }
    dots_plain(a, b, |x, y, sum| sum + x * y)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn dots_fma(a: [&[f32]; BLOCK], b: &[f32]) -> [f32; BLOCK] {
    dots_plain(a, b, f32::mul_add)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "only inlined is it compiled for the instructions of its caller")]
fn dots_plain(a: [&[f32]; BLOCK], b: &[f32], add: impl Fn(f32, f32, f32) -> f32) -> [f32; BLOCK] {
    let a = a.map(|row| &row[..b.len()]);
    let mut sums = [[0.0f32; LANES]; BLOCK];
    let whole = b.len() / LANES * LANES;
    let mut at = 0;
    while at < whole {
        let right: &[f32; LANES] = b[at..at + LANES].try_into().expect("a slice of this length");
        for (row, sums) in a.iter().zip(&mut sums) {
            let left: &[f32; LANES] = row[at..at + LANES].try_into().expect("a slice of this length");
            for lane in 0..LANES {
                sums[lane] = add(left[lane], right[lane], sums[lane]);
            }
        }
        at += LANES;
    }
    let mut totals = sums.map(|sums| sums.iter().sum::<f32>());
    for (row, total) in a.iter().zip(&mut totals) {
        *total += row[whole..].iter().zip(&b[whole..]).map(|(x, y)| x * y).sum::<f32>();
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_are_those_of_the_definition() {
        for length in [0, 1, 7, 8, 9, 64, 67] {
            let b: Vec<f32> = (0..length).map(|at| at as f32 - 3.0).collect();
            let rows: Vec<Vec<f32>> = (0..BLOCK).map(|row| (0..length).map(|at| ((at * 7 + row) % 5) as f32).collect()).collect();
            let expected: Vec<f32> = rows.iter().map(|row| row.iter().zip(&b).map(|(x, y)| x * y).sum()).collect();
            assert_eq!(dots([&rows[0], &rows[1], &rows[2], &rows[3]], &b).to_vec(), expected, "{length}");
            assert_eq!(dots_plain([&rows[0], &rows[1], &rows[2], &rows[3]], &b, |x, y, sum| sum + x * y).to_vec(), expected);
        }
    }
}
