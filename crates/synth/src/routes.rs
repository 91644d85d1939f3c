//! What a router's choices look like: how often they repeat, how unevenly they fall.
//!
//! The figures published for K3 are of these kinds, so that a synthetic router can be held against
//! them, and a cache against either.

use std::collections::{BTreeMap, BTreeSet};

/// The routes of a text: for each layer, the experts of each row.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    layers: BTreeMap<usize, Vec<Vec<u32>>>,
}

impl Routes {
    /// Adds the experts of the next row of a layer.
    pub fn push(&mut self, layer: usize, experts: &[u32]) {
        self.layers.entry(layer).or_default().push(experts.to_vec());
    }

    /// Rows of a layer.
    pub fn rows(&self) -> usize {
        self.layers.values().next().map_or(0, Vec::len)
    }

    /// How many experts `tokens` tokens in a row need, in multiples of what one needs; nothing for a
    /// shorter text. Two need 1.69 times as many when 31 % of a token's experts repeat in the next.
    pub fn union(&self, tokens: usize) -> Option<f64> {
        let layer = |rows: &Vec<Vec<u32>>| {
            let union = |window: &[Vec<u32>]| {
                let distinct: BTreeSet<u32> = window.iter().flatten().copied().collect();
                distinct.len() as f64 / window[0].len() as f64
            };
            mean(rows.windows(tokens.max(1)).map(union))
        };
        mean(self.layers.values().filter_map(layer))
    }

    /// The part of routes that go to the most wanted `share` of a layer's `experts`.
    pub fn hottest(&self, share: f64, experts: usize) -> Option<f64> {
        let layer = |rows: &Vec<Vec<u32>>| {
            let mut counts: Vec<u64> = counts(rows).into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let all: u64 = counts.iter().sum();
            let hot: u64 = counts.iter().take((share * experts as f64).round() as usize).sum();
            (all > 0).then(|| hot as f64 / all as f64)
        };
        mean(self.layers.values().filter_map(layer))
    }

    /// The part of the routes of `unseen` that a cache answers which holds the experts most wanted
    /// here, `share` of all there are, `experts` in each layer.
    pub fn pin(&self, unseen: &Routes, share: f64, experts: usize) -> Option<f64> {
        let layers = self.layers.iter();
        let mut wanted: Vec<(u64, usize, u32)> = layers
            .flat_map(|(&layer, rows)| {
                counts(rows).into_iter().map(move |(expert, count)| (count, layer, expert))
            })
            .collect();
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        let room = (share * (experts * self.layers.len()) as f64).round() as usize;
        let held: BTreeSet<(usize, u32)> =
            wanted.into_iter().take(room).map(|(_, layer, expert)| (layer, expert)).collect();
        let routes = unseen.layers.iter();
        let hits = routes
            .flat_map(|(&layer, rows)| rows.iter().flatten().map(move |&expert| (layer, expert)));
        mean(hits.map(|route| if held.contains(&route) { 1.0 } else { 0.0 }))
    }
}

fn counts(rows: &[Vec<u32>]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    rows.iter().flatten().for_each(|&expert| *counts.entry(expert).or_default() += 1);
    counts
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0u64), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(rows: &[&[u32]]) -> Routes {
        let mut routes = Routes::default();
        rows.iter().for_each(|row| routes.push(3, row));
        routes
    }

    #[test]
    fn unions_count_distinct_experts() {
        let text = routes(&[&[0, 1], &[1, 2], &[3, 4]]);
        assert_eq!(text.union(1), Some(1.0));
        assert_eq!(text.union(2), Some(1.75));
        assert_eq!(text.union(3), Some(2.5));
        assert_eq!(text.union(4), None);
    }

    #[test]
    fn the_hottest_are_found_in_each_layer() {
        let mut text = routes(&[&[0, 1], &[0, 2], &[0, 3]]);
        assert_eq!(text.hottest(0.1, 10), Some(0.5));
        (0..3).for_each(|_| text.push(5, &[7, 8]));
        assert_eq!(text.hottest(0.2, 10), Some((2.0 / 3.0 + 1.0) / 2.0));
    }

    #[test]
    fn a_pin_is_held_against_another_text() {
        let seen = routes(&[&[0, 1], &[0, 2], &[0, 3]]);
        assert_eq!(seen.pin(&routes(&[&[0, 9], &[8, 9]]), 0.1, 10), Some(0.25));
        assert_eq!(seen.pin(&Routes::default(), 0.1, 10), None);
    }
}
