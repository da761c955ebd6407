//! Scrapes that a server took and stored: samples with their own times, read as if they stood in metrics text.

use capture::Severity;

use crate::builder::Builder;

use super::Parser;

/// Scrapes of one target.
pub(crate) struct StoredScrapes {
    /// Texts of the series.
    pub(crate) series: Vec<String>,
    /// Host time, index into `series`, value.
    pub(crate) samples: Vec<(i64, u32, f64)>,
    /// Host time and seconds of scrapes.
    pub(crate) took: Vec<(i64, f64)>,
    /// Scrapes that got no answer.
    pub(crate) failed_count: i64,
}

/// Makes rows of stored scrapes. Samples of one time are one scrape.
pub(crate) fn read_stored(scrapes: StoredScrapes, builder: &mut Builder<'_>) {
    let mut parser = Parser::new(builder);
    let ids: Vec<u32> = scrapes.series.iter().map(|text| parser.catalog.find_or_add(text.as_bytes(), &mut parser.rows, builder)).collect();
    parser.scrape_count = u64::from(!scrapes.samples.is_empty());
    parser.timed = scrapes.samples.into_iter().map(|(t_ns, series, value)| (t_ns, ids[series as usize], value)).collect();
    for (t_ns, took_s) in scrapes.took {
        parser.rows.scrape_time(t_ns, took_s, builder);
    }
    if scrapes.failed_count > 0 {
        parser.failed = scrapes.failed_count;
        let sentence = "expected an answer to a scrape, found an error; that moment is missing";
        builder.issue(Severity::Warning, "scrape_failed", "", scrapes.failed_count, sentence);
    }
    parser.finish(false, builder);
}
