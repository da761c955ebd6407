//! Inner loops of the kernels here, each for the plain target and for AVX2 with FMA.

#![allow(unsafe_code)] // calls guarded by the question whether the CPU has the instructions, and loads within bounds

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps};

/// Rows of a block of dot products: with two sums each they keep both units for products busy.
pub(super) const BLOCK: usize = 4;

/// Values in a register.
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

/// The dot products of [`BLOCK`] rows `a` with the row `b`. All are as long as `b`.
pub(super) fn dots(a: [&[f32]; BLOCK], b: &[f32]) -> [f32; BLOCK] {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the CPU has AVX2 and FMA, as just asked.
        return unsafe { dots_fma(a, b) };
    }
    dots_plain(a, b)
}

/// `sum += weight * values`, value by value.
pub(super) fn add_scaled(sum: &mut [f32], weight: f32, values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        // SAFETY: the CPU has AVX2 and FMA, as just asked.
        unsafe { add_scaled_fma(sum, weight, values) };
        return;
    }
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_scaled_fma(sum: &mut [f32], weight: f32, values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = weight.mul_add(*value, *sum));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn dots_fma(a: [&[f32]; BLOCK], b: &[f32]) -> [f32; BLOCK] {
    let a = a.map(|row| &row[..b.len()]);
    let whole = b.len() / (2 * LANES) * 2 * LANES;
    let mut sums: [[__m256; 2]; BLOCK] = [[_mm256_setzero_ps(); 2]; BLOCK];
    for at in (0..whole).step_by(2 * LANES) {
        for half in 0..2 {
            let first = at + half * LANES;
            // SAFETY: `first + LANES` is at most `whole`, which is at most the length of `b` and of every row.
            let right = unsafe { _mm256_loadu_ps(b.as_ptr().add(first)) };
            for (row, sums) in a.iter().zip(&mut sums) {
                // SAFETY: as above.
                let left = unsafe { _mm256_loadu_ps(row.as_ptr().add(first)) };
                sums[half] = _mm256_fmadd_ps(left, right, sums[half]);
            }
        }
    }
    let mut totals = tails(a, b, whole);
    for (sums, total) in sums.iter().zip(&mut totals) {
        for sum in sums {
            let mut lanes = [0.0f32; LANES];
            // SAFETY: `lanes` holds as many values as a register.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), *sum) };
            *total += lanes.iter().sum::<f32>();
        }
    }
    totals
}

fn dots_plain(a: [&[f32]; BLOCK], b: &[f32]) -> [f32; BLOCK] {
    tails(a.map(|row| &row[..b.len()]), b, 0)
}

/// The dot products of what stands from `start` on.
fn tails(a: [&[f32]; BLOCK], b: &[f32], start: usize) -> [f32; BLOCK] {
    a.map(|row| {
        let (left, right) = (row[start..].chunks_exact(LANES), b[start..].chunks_exact(LANES));
        let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
        let mut sums = [0.0f32; LANES];
        for (left, right) in left.zip(right) {
            sums.iter_mut().zip(left.iter().zip(right)).for_each(|(sum, (x, y))| *sum += x * y);
        }
        rest + sums.iter().sum::<f32>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_are_those_of_the_definition() {
        for length in [0, 1, 7, 8, 9, 16, 31, 64, 67] {
            let b: Vec<f32> = (0..length).map(|at| at as f32 - 3.0).collect();
            let rows: Vec<Vec<f32>> = (0..BLOCK).map(|row| (0..length).map(|at| ((at * 7 + row) % 5) as f32).collect()).collect();
            let expected: Vec<f32> = rows.iter().map(|row| row.iter().zip(&b).map(|(x, y)| x * y).sum()).collect();
            assert_eq!(dots([&rows[0], &rows[1], &rows[2], &rows[3]], &b).to_vec(), expected, "{length}");
            assert_eq!(dots_plain([&rows[0], &rows[1], &rows[2], &rows[3]], &b).to_vec(), expected);
        }
    }

    #[test]
    fn scaled_values_are_added() {
        let mut sum = [1.0f32; 19];
        let values: Vec<f32> = (0..19).map(|at| at as f32).collect();
        add_scaled(&mut sum, 2.0, &values);
        assert!(sum.iter().enumerate().all(|(at, sum)| *sum == 1.0 + 2.0 * at as f32), "{sum:?}");
    }
}
