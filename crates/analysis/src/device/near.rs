//! Searches that begin where the last one ended: events come in order of time, and so does what is looked up for them.

/// The first place at which `is_before` no longer holds, as `partition_point` finds it; the search begins at `near` and leaves its
/// result there.
#[inline]
pub(crate) fn partition_point_near(len: usize, near: &mut usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut stride) = ((*near).min(len), (*near).min(len), 1);
    // Everything below `low` is before, nothing from `high` on is.
    while low > 0 && !is_before(low - 1) {
        high = low - 1;
        low = low.saturating_sub(stride);
        stride *= 2;
    }
    while high < len && is_before(high) {
        low = high + 1;
        high = (high + stride).min(len);
        stride *= 2;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    *near = low;
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_it_begins_it_finds_what_partition_point_finds() {
        for len in 0..20 {
            let values: Vec<usize> = (0..len).map(|at| at / 2).collect();
            for wanted in 0..12 {
                for begin in 0..25 {
                    let mut near = begin;
                    let found = partition_point_near(len, &mut near, |at| values[at] < wanted);
                    assert_eq!((found, near), (values.partition_point(|value| *value < wanted), found), "{wanted} of {len} from {begin}");
                }
            }
        }
    }
}
