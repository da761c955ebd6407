//! Parquet's encodings of values: bit-packed runs, packed deltas, and plain numbers.

use super::Damage;

/// Most values one block of deltas may hold; writers use 128.
const MAX_DELTA_BLOCK: u64 = 1 << 16;

/// A variable-length integer and the bytes it took.
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, usize), Damage> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    Err(if bytes.len() < 10 { Damage::ends_in("a number") } else { Damage::new("a number of at most 10 bytes", "a longer one") })
}

/// The signed number behind a zigzag-encoded one.
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Takes a varint off the front.
fn take_varint(bytes: &mut &[u8]) -> Result<u64, Damage> {
    let (value, used) = varint(bytes)?;
    *bytes = &bytes[used..];
    Ok(value)
}

/// Appends `count` numbers of `width` bits from runs that are either repeated or bit-packed (RLE hybrid).
pub(in crate::store) fn hybrid(mut bytes: &[u8], width: u32, count: usize, out: &mut Vec<u32>) -> Result<(), Damage> {
    if width > 32 {
        return Err(Damage::new("numbers of at most 32 bits", format_args!("{width} bits")));
    }
    let end = out.len() + count;
    out.reserve(count);
    while out.len() < end {
        let head = take_varint(&mut bytes)?;
        let left = end - out.len();
        let run = usize::try_from(head >> 1).unwrap_or(usize::MAX);
        if head & 1 == 1 {
            let packed = run.saturating_mul(width as usize).min(bytes.len());
            let held = if width == 0 { left } else { packed * 8 / width as usize };
            let values = run.saturating_mul(8).min(left).min(held);
            if values == 0 {
                return Err(Damage::ends_in("bit-packed numbers"));
            }
            unpack(bytes, width, values, |value| out.push(value as u32));
            bytes = &bytes[packed..];
        } else {
            let size = width.div_ceil(8) as usize;
            let value = bytes.get(..size).ok_or_else(|| Damage::ends_in("a repeated number"))?;
            let value = value.iter().rev().fold(0u32, |value, &byte| value << 8 | u32::from(byte));
            bytes = &bytes[size..];
            if run == 0 {
                return Err(Damage::new("a run of at least one number", "none"));
            }
            out.resize(out.len() + run.min(left), value);
        }
    }
    Ok(())
}

/// Hands out `count` numbers of `width` bits (at most 64), low bits first. The caller has checked that they are there.
fn unpack(bytes: &[u8], width: u32, count: usize, mut push: impl FnMut(u64)) {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let width = width as usize;
    // A number that starts within a byte spans up to 71 bits; up to 56 bits wide it lies within eight bytes.
    let quick = if width > 56 || bytes.len() < 8 { 0 } else { count.min((bytes.len() - 8) * 8 / width.max(1)) };
    for at in 0..quick {
        let bit = at * width;
        let word: [u8; 8] = bytes[bit / 8..bit / 8 + 8].try_into().expect("eight bytes were sliced");
        push(u64::from_le_bytes(word) >> (bit % 8) & mask);
    }
    for at in quick..count {
        let bit = at * width;
        let rest = &bytes[(bit / 8).min(bytes.len())..];
        let mut word = [0; 16];
        let held = rest.len().min(16);
        word[..held].copy_from_slice(&rest[..held]);
        push((u128::from_le_bytes(word) >> (bit % 8)) as u64 & mask);
    }
}

/// Hands out exactly `count` delta-packed numbers (DELTA_BINARY_PACKED), wrapping as their writer did.
pub(super) fn deltas(mut bytes: &[u8], count: usize, mut push: impl FnMut(i64)) -> Result<(), Damage> {
    let block = take_varint(&mut bytes)?;
    let minis = take_varint(&mut bytes)?;
    let total = take_varint(&mut bytes)?;
    let first = unzigzag(take_varint(&mut bytes)?);
    if total != count as u64 {
        return Err(Damage::new(format_args!("{count} packed deltas"), total));
    }
    let sound = minis > 0 && block <= MAX_DELTA_BLOCK && block % 128 == 0 && block % minis == 0 && block / minis % 32 == 0 && block > 0;
    if !sound {
        return Err(Damage::new("blocks of deltas in multiples of 128", format_args!("{block} in {minis} parts")));
    }
    let (minis, per_mini) = (minis as usize, (block / minis) as usize);
    let mut left = count;
    if left > 0 {
        push(first);
        left -= 1;
    }
    let mut value = first;
    while left > 0 {
        let smallest = unzigzag(take_varint(&mut bytes)?);
        let (widths, rest) = bytes.split_at_checked(minis).ok_or_else(|| Damage::ends_in("the widths of deltas"))?;
        bytes = rest;
        for &width in widths {
            if left == 0 {
                break; // widths of parts that hold nothing may be anything
            }
            let width = u32::from(width);
            if width > 64 {
                return Err(Damage::new("deltas of at most 64 bits", format_args!("{width} bits")));
            }
            let values = per_mini.min(left);
            let needed = (values * width as usize).div_ceil(8);
            if needed > bytes.len() {
                return Err(Damage::ends_in("packed deltas"));
            }
            unpack(bytes, width, values, |delta| {
                value = value.wrapping_add(smallest).wrapping_add(delta.cast_signed());
                push(value);
            });
            bytes = &bytes[(per_mini * width as usize / 8).min(bytes.len())..];
            left -= values;
        }
    }
    Ok(())
}

/// The plain bytes of `count` numbers of `N` bytes.
pub(super) fn plain<const N: usize>(bytes: &[u8], count: usize) -> Result<impl Iterator<Item = [u8; N]> + '_, Damage> {
    let held = count.checked_mul(N).and_then(|size| bytes.get(..size)).ok_or_else(|| Damage::ends_in("plain numbers"))?;
    Ok(held.chunks_exact(N).map(|chunk| chunk.try_into().expect("chunks have N bytes")))
}

/// Takes one length-prefixed text off the front.
pub(super) fn take_text<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, Damage> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| Damage::ends_in("the length of a text"))?;
    let length = u32::from_le_bytes(*length) as usize;
    let (text, rest) = rest.split_at_checked(length).ok_or_else(|| Damage::ends_in("a text"))?;
    *bytes = rest;
    std::str::from_utf8(text).map_err(|_| Damage::new("UTF-8 text", "other bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_repeated_or_packed() {
        let mut out = Vec::new();
        hybrid(&[0x03, 0x88, 0xc6, 0xfa], 3, 8, &mut out).unwrap();
        hybrid(&[0x0a, 0x07], 3, 5, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn wide_numbers_cross_bytes() {
        for width in [1, 7, 9, 31, 56, 57, 63, 64] {
            let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
            let numbers: Vec<u64> = (1..=40u64).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
            let mut packed = vec![0u8; (numbers.len() * width).div_ceil(8)];
            for (at, number) in numbers.iter().enumerate() {
                for bit in 0..width {
                    packed[(at * width + bit) / 8] |= ((number >> bit & 1) as u8) << ((at * width + bit) % 8);
                }
            }
            let mut found = Vec::new();
            unpack(&packed, width as u32, numbers.len(), |number| found.push(number));
            assert_eq!(found, numbers, "{width} bits");
        }
    }

    #[test]
    fn claims_without_bytes_are_refused() {
        let mut out = Vec::new();
        assert!(hybrid(&[], 3, 1, &mut out).is_err());
        assert!(hybrid(&[0xff, 0xff, 0xff, 0xff, 0x0f], 3, 1 << 20, &mut out).is_err());
        assert!(hybrid(&[0x00, 0x01], 3, 8, &mut out).is_err(), "an empty run would never end");
        assert!(deltas(&[0x80, 0x01, 0x04, 0x05, 0x00], 5, |_| ()).is_err());
        assert!(deltas(&[0x00, 0x01, 0x05, 0x00], 5, |_| ()).is_err());
        assert!(take_text(&mut [0xff, 0xff, 0xff, 0x7f, b'x'].as_slice()).is_err());
    }

    proptest! {
        /// Any bytes are either exactly as many values as asked for, or damage.
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, width in 0u32..40, count in 0usize..300) {
            let mut out = Vec::new();
            prop_assert!(hybrid(&bytes, width, count, &mut out).is_err() || out.len() == count);
            let mut found = 0;
            prop_assert!(deltas(&bytes, count, |_| found += 1).is_err() || found == count);
            // With a sound head the rest of the decoder is reached.
            let mut headed = vec![0x80, 0x01, 0x04];
            headed.extend([count as u8 & 0x7f, 0x00]);
            headed.extend(&bytes);
            let (count, mut found) = (count & 0x7f, 0);
            prop_assert!(deltas(&headed, count, |_| found += 1).is_err() || found == count);
            prop_assert!(super::super::footer::Footer::parse(&bytes).is_err(), "without a schema there is no footer");
        }
    }
}
