//! Columns joined and reordered without a second copy: a trace of a gigabyte has columns of many megabytes.

/// Appends a column; an empty one is replaced, so that nothing is copied.
pub(crate) fn append<T>(into: &mut Vec<T>, from: Vec<T>) {
    if into.is_empty() {
        *into = from;
    } else {
        into.extend(from);
    }
}

/// Reorders in place: position `i` gets what stood at `order[i]`. `order` is a permutation of the positions that leaves the
/// first `sorted` values in their order.
///
/// Rows come as a few sorted runs, one after the other: those behind the first are set aside and merged from the back. All
/// walks are then forward or backward. Following the cycles of the permutation would need no memory, and a miss of the cache
/// for every value.
pub(crate) fn reorder<T: Default>(values: &mut [T], order: &[u32], sorted: usize) {
    let mut aside: Vec<T> = values[sorted..].iter_mut().map(std::mem::take).collect();
    for (at, &from) in order.iter().enumerate().rev() {
        let from = from as usize;
        values[at] = std::mem::take(if from < sorted { &mut values[from] } else { &mut aside[from - sorted] });
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
            let mut places = vec![0; len];
            order.iter().enumerate().for_each(|(place, &at)| places[at as usize] = place);
            let most = (1..len).find(|&at| places[at - 1] > places[at]).unwrap_or(len);
            let values: Vec<String> = (0..len).map(|at| at.to_string()).collect();
            let expected: Vec<String> = order.iter().map(|&at| values[at as usize].clone()).collect();
            for sorted in 0..=most {
                let mut reordered = values.clone();
                reorder(&mut reordered, &order, sorted);
                prop_assert_eq!(&reordered, &expected, "{} of {} sorted", sorted, most);
            }
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
