//! When a load client's own lateness says more than what it measured.

/// Share of one core at which a thread is taken as full.
pub const FULL_CORE: f64 = 0.9;
/// Share of a figure by which its stamps may be late before the figure is doubted.
const DOUBT: f64 = 0.1;
/// Lateness below this is never held against a client, s.
const LEAST_S: f64 = 0.001;

/// Whether a figure, s, is doubted because the client was `late_s` late: a stamp can be late by what an event waits for the
/// client's loop, so that lateness of a tenth of a figure makes a tenth of it the client's. Rank is held against rank: the
/// worst lateness in a hundred makes the worst gaps late and not the usual ones. A figure of 0 was not measured.
pub fn is_doubted(late_s: f64, figure_s: f64) -> bool {
    figure_s > 0.0 && late_s > LEAST_S.max(DOUBT * figure_s)
}

#[cfg(test)]
mod tests {
    use super::is_doubted;

    #[test]
    fn only_what_is_large_against_the_figure_is_doubted() {
        assert!(is_doubted(0.0021, 0.02) && !is_doubted(0.0019, 0.02));
        assert!(!is_doubted(0.0009, 0.001) && !is_doubted(1.0, 0.0) && !is_doubted(f64::NAN, 0.02));
    }
}
