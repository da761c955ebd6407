//! Columns joined and reordered without a second copy: a trace of a gigabyte has columns of many megabytes.

/// Appends a column; an empty one is replaced, so that nothing is copied.
pub(crate) fn append<T>(into: &mut Vec<T>, from: Vec<T>) {
    if into.is_empty() {
        *into = from;
    } else {
        into.extend(from);
    }
}

/// Positions that have their final value, a bit each.
#[derive(Default)]
pub(crate) struct Placed(Vec<u64>);

impl Placed {
    fn clear(&mut self, len: usize) {
        self.0.clear();
        self.0.resize(len.div_ceil(64), 0);
    }

    fn contains(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
}

/// Reorders in place: position `i` gets what stood at `order[i]`. `order` is a permutation of the positions.
pub(crate) fn reorder<T: Default>(values: &mut [T], order: &[u32], placed: &mut Placed) {
    placed.clear(order.len());
    for start in 0..order.len() {
        if placed.contains(start) {
            continue;
        }
        let first = std::mem::take(&mut values[start]);
        let mut at = start;
        loop {
            placed.insert(at);
            let from = order[at] as usize;
            if from == start {
                values[at] = first;
                break;
            }
            values[at] = std::mem::take(&mut values[from]);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_position_gets_what_the_order_says(order in Just((0u32..200).collect::<Vec<u32>>()).prop_shuffle(), len in 0usize..200) {
            let order: Vec<u32> = order.into_iter().filter(|at| (*at as usize) < len).collect();
            let values: Vec<String> = (0..len).map(|at| at.to_string()).collect();
            let expected: Vec<String> = order.iter().map(|&at| values[at as usize].clone()).collect();
            let mut reordered = values;
            reorder(&mut reordered, &order, &mut Placed::default());
            prop_assert_eq!(reordered, expected);
        }
    }

    #[test]
    fn appending_to_an_empty_column_moves_it() {
        let from = vec![1, 2, 3];
        let place = from.as_ptr();
        let mut into = Vec::new();
        append(&mut into, from);
        assert_eq!(into.as_ptr(), place);
        append(&mut into, vec![4]);
        assert_eq!(into, [1, 2, 3, 4]);
    }
}
