//! Kernels by family: what remains comparable of a name between versions.

use std::collections::BTreeMap;
use std::ops::Range;

use capture::Name;

use super::kernels::{Category, MatrixUnits, family};
use super::timeline::{Event, Lane, Timeline};

/// All kernels of one family on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyTotal {
    /// Family, see [`family`].
    pub family: String,
    /// One full name of it: that with most time.
    pub name: String,
    /// What it does.
    pub category: Category,
    /// Whether on matrix units, by that name.
    pub matrix: MatrixUnits,
    /// Kernels.
    pub count: u64,
    /// Sum of their lengths, ns.
    pub total_ns: i64,
}

/// Adds kernels up by name; families are read from the names at the end.
#[derive(Clone, Debug)]
pub struct FamilyTally {
    by_name: Vec<(u64, i64)>,
    categories: BTreeMap<Name, Category>,
}

impl FamilyTally {
    /// An empty one for the names of a timeline.
    pub fn new(timeline: &Timeline<'_>) -> Self {
        Self { by_name: vec![(0, 0); timeline.capture().names.len()], categories: BTreeMap::new() }
    }

    /// Adds an event where it is a kernel.
    pub fn add(&mut self, event: &Event) {
        if !event.is_kernel() {
            return;
        }
        let Some(total) = self.by_name.get_mut(event.name.0 as usize) else { return };
        if total.0 == 0 {
            self.categories.insert(event.name, event.category);
        }
        total.0 += 1;
        total.1 = total.1.saturating_add(event.duration_ns());
    }

    /// The families, the most time first.
    pub fn families(self, timeline: &Timeline<'_>) -> Vec<FamilyTotal> {
        let mut names: Vec<(Name, Category)> = self.categories.into_iter().collect();
        let time = |name: &Name| self.by_name[name.0 as usize].1;
        names.sort_by(|a, b| time(&b.0).cmp(&time(&a.0)).then_with(|| timeline.text(a.0).cmp(timeline.text(b.0))));
        let mut totals: BTreeMap<(String, Category), FamilyTotal> = BTreeMap::new();
        for (name, category) in names {
            let (count, total_ns) = self.by_name[name.0 as usize];
            let text = timeline.text(name);
            let of_family = family(text);
            let total = totals.entry((of_family.clone(), category)).or_insert_with(|| FamilyTotal {
                family: of_family,
                name: text.to_string(),
                category,
                matrix: timeline.matrix(name),
                count: 0,
                total_ns: 0,
            });
            total.count += count;
            total.total_ns = total.total_ns.saturating_add(total_ns);
        }
        let mut totals: Vec<FamilyTotal> = totals.into_values().collect();
        totals.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.family.cmp(&b.family)));
        totals
    }
}

/// Families of the kernels at some places of a lane, the most time first.
pub fn families(timeline: &Timeline<'_>, lane: &Lane, places: Range<usize>) -> Vec<FamilyTotal> {
    let mut tally = FamilyTally::new(timeline);
    timeline.events_at(lane, places).for_each(|event| tally.add(&event));
    tally.families(timeline)
}
