//! What a router's choices look like: how often they repeat, how unevenly they fall.
//!
//! The figures published for K3 are of these kinds, so that a synthetic router can be held against
//! them, and a cache against either.
//!
//! **Promise.** What is kept grows with the experts and not with the text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Tokens in a row of which it is known how many experts they need together, at most.
const WINDOW: usize = 8;

/// What is counted of the routes of a text.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    layers: BTreeMap<usize, Layer>,
}

/// What is counted of a layer.
#[derive(Clone, Debug, Default)]
struct Layer {
    rows: usize,
    /// How often each expert was chosen.
    counts: BTreeMap<u32, u64>,
    /// The experts of the last rows, of the last one at the end.
    recent: VecDeque<Vec<u32>>,
    /// By the rows of a window, less one: the experts of all such windows, in those of their first rows, and how
    /// many windows there were.
    windows: [(f64, u64); WINDOW],
}

impl Routes {
    /// Counts the experts of the next row of a layer.
    pub fn push(&mut self, layer: usize, experts: &[u32]) {
        self.layers.entry(layer).or_default().push(experts);
    }

    /// Rows of a layer.
    pub fn rows(&self) -> usize {
        self.layers.values().next().map_or(0, |layer| layer.rows)
    }

    /// How many experts `tokens` tokens in a row need, in multiples of what one needs; nothing for a
    /// shorter text, or more than eight of them. Two need 1.69 times as many when 31 % of a token's experts
    /// repeat in the next.
    pub fn union(&self, tokens: usize) -> Option<f64> {
        mean(self.layers.values().filter_map(|layer| layer.union(tokens)))
    }

    /// The part of routes that go to the most wanted `share` of a layer's `experts`.
    pub fn hottest(&self, share: f64, experts: usize) -> Option<f64> {
        let hot = |layer: &Layer| {
            let mut counts: Vec<u64> = layer.counts.values().copied().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let all: u64 = counts.iter().sum();
            let hot: u64 = counts.iter().take((share * experts as f64).round() as usize).sum();
            (all > 0).then(|| hot as f64 / all as f64)
        };
        mean(self.layers.values().filter_map(hot))
    }

    /// The part of the routes of `unseen` that a cache answers which holds the experts most wanted
    /// here, `share` of all there are, `experts` in each layer.
    pub fn pin(&self, unseen: &Routes, share: f64, experts: usize) -> Option<f64> {
        let mut wanted: Vec<(u64, usize, u32)> =
            self.counts().map(|(layer, expert, count)| (count, layer, expert)).collect();
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        let room = (share * (experts * self.layers.len()) as f64).round() as usize;
        let held: BTreeSet<(usize, u32)> =
            wanted.into_iter().take(room).map(|(_, layer, expert)| (layer, expert)).collect();
        let (mut hits, mut all) = (0, 0);
        for (layer, expert, count) in unseen.counts() {
            all += count;
            hits += if held.contains(&(layer, expert)) { count } else { 0 };
        }
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// Layers, experts, and how often they were chosen.
    fn counts(&self) -> impl Iterator<Item = (usize, u32, u64)> + '_ {
        self.layers.iter().flat_map(|(&layer, counted)| {
            counted.counts.iter().map(move |(&expert, &count)| (layer, expert, count))
        })
    }
}

impl Layer {
    fn push(&mut self, experts: &[u32]) {
        self.rows += 1;
        experts.iter().for_each(|&expert| *self.counts.entry(expert).or_default() += 1);
        let oldest = if self.recent.len() == WINDOW { self.recent.pop_front() } else { None };
        let mut row = oldest.unwrap_or_default();
        row.clear();
        row.extend_from_slice(experts);
        self.recent.push_back(row);
        let mut distinct = BTreeSet::new();
        // Windows that end here, from the shortest on.
        for (first, (sum, count)) in self.recent.iter().rev().zip(&mut self.windows) {
            distinct.extend(first.iter().copied());
            *sum += distinct.len() as f64 / first.len() as f64;
            *count += 1;
        }
    }

    fn union(&self, tokens: usize) -> Option<f64> {
        let (sum, count) = *self.windows.get(tokens.max(1) - 1)?;
        (count > 0).then(|| sum / count as f64)
    }
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
        let mut text = routes(&[&[0, 1], &[1, 2], &[3, 4]]);
        assert_eq!(text.union(1), Some(1.0));
        assert_eq!(text.union(2), Some(1.75));
        assert_eq!(text.union(3), Some(2.5));
        assert_eq!(text.union(4), None);
        (0..100).for_each(|_| text.push(3, &[3, 4]));
        assert_eq!((text.union(8), text.union(9)), (Some(98.5 / 96.0), None));
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
