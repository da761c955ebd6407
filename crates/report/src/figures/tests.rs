//! Tables of input and text.

use expect_test::{Expect, expect};

use super::*;

/// One line per value: what `write` makes of it.
fn check<T: std::fmt::Debug>(values: &[T], write: impl Fn(&T) -> String, expected: &Expect) {
    let lines: Vec<String> = values.iter().map(|value| format!("{value:?} => {}\n", write(value))).collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn numbers_carry_three_significant_digits() {
    check(
        &[
            0.0,
            -0.0,
            1.0,
            2.4,
            9.996,
            32.0,
            99.96,
            999.4,
            999.6,
            1000.0,
            5640.0,
            1_234_567.8,
            0.1,
            0.0999_96,
            0.001_234,
            1e-7,
            3e-12,
            4.2e18,
            -2.514,
            -1234.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN,
            f64::MIN_POSITIVE,
        ],
        |value| number(*value),
        &expect![[r#"
            0.0 => 0
            -0.0 => 0
            1.0 => 1.00
            2.4 => 2.40
            9.996 => 10.0
            32.0 => 32.0
            99.96 => 100
            999.4 => 999
            999.6 => 1,000
            1000.0 => 1,000
            5640.0 => 5,640
            1234567.8 => 1,234,568
            0.1 => 0.100
            0.099996 => 0.100
            0.001234 => 0.00123
            1e-7 => 1.00e-7
            3e-12 => 3.00e-12
            4.2e18 => 4.20e18
            -2.514 => -2.51
            -1234.0 => -1,234
            NaN => unknown
            inf => unknown
            -1.7976931348623157e308 => -1.80e308
            2.2250738585072014e-308 => 2.23e-308
        "#]],
    );
}

#[test]
fn quantities_pick_the_unit_that_suits_their_size() {
    check(
        &[
            (0.0, "s"),
            (2.51, "s"),
            (0.0128, "s"),
            (0.9994, "s"),
            (0.9996, "s"),
            (0.000_999_6, "s"),
            (3.2e-7, "s"),
            (4e-12, "s"),
            (125.0, "s"),
            (4000.0, "s"),
            (-0.25, "s"),
        ],
        |(value, unit)| quantity(*value, unit),
        &expect![[r#"
            (0.0, "s") => 0 s
            (2.51, "s") => 2.51 s
            (0.0128, "s") => 12.8 ms
            (0.9994, "s") => 999 ms
            (0.9996, "s") => 1.00 s
            (0.0009996, "s") => 1.00 ms
            (3.2e-7, "s") => 320 ns
            (4e-12, "s") => 0.00400 ns
            (125.0, "s") => 125 s
            (4000.0, "s") => 4,000 s
            (-0.25, "s") => -250 ms
        "#]],
    );
}

#[test]
fn every_base_unit_has_its_words() {
    check(
        &[
            (0.0, "byte"),
            (512.0, "byte"),
            (1023.9, "byte"),
            (85_899_345_920.0, "byte"),
            (3.35e12, "byte/s"),
            (9.5e8, "byte/s"),
            (1.98e9, "Hz"),
            (700.0, "W"),
            (63.5, "degC"),
            (9.4, "request/s"),
            (13_536.0, "request_s"),
            (11_234.4, "token/s"),
            (1.0, "token"),
            (4096.0, "token"),
            (3.25, "request"),
            (7.0, "count"),
            (1.42, "factor"),
            (0.42, "ratio"),
            (1.0, "flag"),
            (0.0, "flag"),
            (12.0, "parsec"),
            (f64::NAN, "s"),
            (f64::INFINITY, "ratio"),
        ],
        |(value, unit)| quantity(*value, unit),
        &expect![[r#"
            (0.0, "byte") => 0 B
            (512.0, "byte") => 512 B
            (1023.9, "byte") => 1.00 KiB
            (85899345920.0, "byte") => 80.0 GiB
            (3350000000000.0, "byte/s") => 3.35 TB/s
            (950000000.0, "byte/s") => 950 MB/s
            (1980000000.0, "Hz") => 1.98 GHz
            (700.0, "W") => 700 W
            (63.5, "degC") => 63.5 °C
            (9.4, "request/s") => 9.40 req/s
            (13536.0, "request_s") => 13,536 request-seconds
            (11234.4, "token/s") => 11,234 tok/s
            (1.0, "token") => 1 token
            (4096.0, "token") => 4,096 tokens
            (3.25, "request") => 3.25 requests
            (7.0, "count") => 7
            (1.42, "factor") => 1.42x
            (0.42, "ratio") => 42 %
            (1.0, "flag") => yes
            (0.0, "flag") => no
            (12.0, "parsec") => 12.0 parsec
            (NaN, "s") => unknown
            (inf, "ratio") => unknown
        "#]],
    );
}

#[test]
fn shares_never_round_something_to_nothing_or_to_all() {
    let values = [0.0, 0.001, 0.004_9, 0.005, 0.42, 0.97, 0.994, 0.996, 1.0, 1.2, -0.03, -0.001, f64::NAN];
    check(
        &values,
        |value| format!("{} | {}", share(*value), share_cell(*value)),
        &expect![[r#"
            0.0 => 0 % | 0 %
            0.001 => under 1 % | <1 %
            0.0049 => under 1 % | <1 %
            0.005 => 1 % | 1 %
            0.42 => 42 % | 42 %
            0.97 => 97 % | 97 %
            0.994 => 99 % | 99 %
            0.996 => over 99 % | >99 %
            1.0 => 100 % | 100 %
            1.2 => 120 % | 120 %
            -0.03 => -3 % | -3 %
            -0.001 => 0 % | 0 %
            NaN => unknown | ?
        "#]],
    );
    check(
        &[0.0, 0.0001, 0.006, 0.0062, 0.043, 0.0994, 0.0996, 0.12, -0.006, f64::NAN],
        |value| fine_share(*value),
        &expect![[r#"
        0.0 => 0 %
        0.0001 => under 0.1 %
        0.006 => 0.6 %
        0.0062 => 0.6 %
        0.043 => 4.3 %
        0.0994 => 9.9 %
        0.0996 => 10 %
        0.12 => 12 %
        -0.006 => -0.6 %
        NaN => unknown
    "#]],
    );
    check(
        &[[0.93, 0.98], [0.0, 0.004], [0.5, 0.504], [f64::NAN, 1.0]],
        |range| share_range(*range),
        &expect![[r#"
        [0.93, 0.98] => 93..98 %
        [0.0, 0.004] => under 1 %
        [0.5, 0.504] => 50 %
        [NaN, 1.0] => unknown
    "#]],
    );
}

#[test]
fn lengths_of_time_read_as_people_say_them() {
    check(
        &[0.0, 0.084, 0.999, 1.2, 74.0, 119.4, 119.6, 600.0, 3600.0, 7199.0, 7200.0, 7500.0, 86_400.0, 273_600.0, 1e12, -1.0, f64::NAN],
        |value| duration(*value),
        &expect![[r#"
            0.0 => 0 s
            0.084 => 84.0 ms
            0.999 => 999 ms
            1.2 => 1.20 s
            74.0 => 74 s
            119.4 => 119 s
            119.6 => 2 min
            600.0 => 10 min
            3600.0 => 60 min
            7199.0 => 120 min
            7200.0 => 2 h
            7500.0 => 2 h 5 min
            86400.0 => 24 h
            273600.0 => 3 d 4 h
            1000000000000.0 => 11,574,074 d 2 h
            -1.0 => unknown
            NaN => unknown
        "#]],
    );
}

#[test]
fn both_sides_of_a_movement_share_unit_and_precision() {
    check(
        &[
            (Some(2.51), Some([0.10, 0.20]), "s"),
            (Some(2.40), Some([0.0, 0.05]), "s"),
            (Some(0.0128), Some([0.0124, 0.0140]), "s"),
            (None, Some([0.0128, 0.016]), "s"),
            (Some(9.4), None, "request/s"),
            (Some(9.74), Some([13.2, 13.9]), "request/s"),
            (Some(85.0), Some([0.1, 0.2]), "s"),
            (Some(125.0), Some([2.0, 2.4]), "s"),
            (Some(0.0), Some([0.3, 0.4]), "s"),
            (Some(1.0), Some([0.0, 0.0]), "s"),
            (Some(12.0), Some([0.0, 0.0]), "count"),
            (Some(2.0), Some([3.0, 16.0]), "request"),
            (Some(2.4), Some([3.0, 16.5]), "request"),
            (Some(0.42), Some([0.10, 0.12]), "ratio"),
            (Some(0.42), Some([0.001, 0.004]), "ratio"),
            (None, Some([0.0, 0.002]), "ratio"),
            (Some(2.5), Some([2.5, 2.5]), "s"),
            (Some(1.005), Some([1.0051, 1.0052]), "s"),
            (Some(-3.0), Some([-1.0, 2.0]), "s"),
            (Some(f64::NAN), Some([1.0, 2.0]), "s"),
            (Some(1.0), Some([f64::NAN, 2.0]), "s"),
            (None, None, "s"),
        ],
        |(from, to, unit)| {
            let moved = movement(*from, *to, unit);
            format!("{} -> {}", moved.from.unwrap_or_else(|| "-".into()), moved.to.unwrap_or_else(|| "-".into()))
        },
        &expect![[r#"
            (Some(2.51), Some([0.1, 0.2]), "s") => 2.51 s -> 0.10..0.20 s
            (Some(2.4), Some([0.0, 0.05]), "s") => 2.40 s -> 0..0.05 s
            (Some(0.0128), Some([0.0124, 0.014]), "s") => 12.8 ms -> 12.4..14.0 ms
            (None, Some([0.0128, 0.016]), "s") => - -> 12.8..16.0 ms
            (Some(9.4), None, "request/s") => 9.40 req/s -> -
            (Some(9.74), Some([13.2, 13.9]), "request/s") => 9.74 req/s -> 13.2..13.9 req/s
            (Some(85.0), Some([0.1, 0.2]), "s") => 85.0 s -> 100..200 ms
            (Some(125.0), Some([2.0, 2.4]), "s") => 125 s -> 2.0..2.4 s
            (Some(0.0), Some([0.3, 0.4]), "s") => 0 ms -> 300..400 ms
            (Some(1.0), Some([0.0, 0.0]), "s") => 1.00 s -> 0 s
            (Some(12.0), Some([0.0, 0.0]), "count") => 12 -> 0
            (Some(2.0), Some([3.0, 16.0]), "request") => 2 requests -> 3..16 requests
            (Some(2.4), Some([3.0, 16.5]), "request") => 2.40 requests -> 3.0..16.5 requests
            (Some(0.42), Some([0.1, 0.12]), "ratio") => 42 % -> 10..12 %
            (Some(0.42), Some([0.001, 0.004]), "ratio") => 42 % -> 0.1..0.4 %
            (None, Some([0.0, 0.002]), "ratio") => - -> 0..0.2 %
            (Some(2.5), Some([2.5, 2.5]), "s") => 2.50 s -> 2.50 s
            (Some(1.005), Some([1.0051, 1.0052]), "s") => 1.00 s -> 1.005 s
            (Some(-3.0), Some([-1.0, 2.0]), "s") => -3.00 s -> -1.00..2.00 s
            (Some(NaN), Some([1.0, 2.0]), "s") => unknown -> 1.00..2.00 s
            (Some(1.0), Some([NaN, 2.0]), "s") => 1.00 s -> unknown
            (None, None, "s") => - -> -
        "#]],
    );
}

#[test]
fn bounds_and_ratios_drop_what_says_nothing() {
    check(
        &[(0.016, "s"), (0.01625, "s"), (120.0, "s"), (0.3, "ratio"), (2.0, "factor")],
        |(value, unit)| upper(*value, unit),
        &expect![[r#"
        (0.016, "s") => 16 ms
        (0.01625, "s") => 16.2 ms
        (120.0, "s") => 120 s
        (0.3, "ratio") => 30 %
        (2.0, "factor") => 2x
    "#]],
    );
    check(
        &[[0.041, 0.12], [0.98, 0.98], [0.0, 0.004], [0.9996, 1.2]],
        |range| ratio_range(*range),
        &expect![[r#"
        [0.041, 0.12] => 0.04..0.12
        [0.98, 0.98] => 0.98
        [0.0, 0.004] => 0..0.004
        [0.9996, 1.2] => 1.00..1.20
    "#]],
    );
    check(
        &[0, 999, 1000, 5640, u64::MAX],
        |value| count(*value),
        &expect![[r#"
        0 => 0
        999 => 999
        1000 => 1,000
        5640 => 5,640
        18446744073709551615 => 18,446,744,073,709,551,615
    "#]],
    );
}

#[test]
fn parts_read_in_the_terms_of_their_whole() {
    check(
        &[
            (2.4, 5.69),
            (0.03, 5.69),
            (0.004, 5.69),
            (0.006, 5.69),
            (0.0, 5.69),
            (0.0021, 0.0128),
            (1e-6, 0.0128),
            (40.0, 125.0),
            (0.2, 125.0),
            (1.0, 0.0),
            (f64::NAN, 1.0),
        ],
        |(value, whole)| part_of(*value, *whole, "s"),
        &expect![[r#"
            (2.4, 5.69) => 2.40 s
            (0.03, 5.69) => 0.03 s
            (0.004, 5.69) => <0.01 s
            (0.006, 5.69) => 0.01 s
            (0.0, 5.69) => 0 s
            (0.0021, 0.0128) => 2.1 ms
            (1e-6, 0.0128) => <0.1 ms
            (40.0, 125.0) => 40 s
            (0.2, 125.0) => <1 s
            (1.0, 0.0) => 1.00 s
            (NaN, 1.0) => unknown
        "#]],
    );
}
