//! Settings that cover all pairs of choices, where all combinations would be too many.

/// Rows with one choice for each factor, `sizes[f]` being how many factor `f` has. Any two choices
/// of two factors occur together in some row. The same sizes give the same rows.
pub fn all_pairs(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut open: Vec<[(usize, usize); 2]> = Vec::new();
    for second in 0..sizes.len() {
        for first in 0..second {
            let choices = (0..sizes[first]).flat_map(|a| (0..sizes[second]).map(move |b| (a, b)));
            open.extend(choices.map(|(a, b)| [(first, a), (second, b)]));
        }
    }
    let mut draw = Draw(1);
    let mut rows = Vec::new();
    while let Some(&due) = open.first() {
        // Any row that has the first open pair makes progress; of some, the one that has most.
        let candidates = (0..40).map(|_| {
            let mut row: Vec<usize> = sizes.iter().map(|size| draw.below(*size)).collect();
            due.iter().for_each(|(factor, choice)| row[*factor] = *choice);
            row
        });
        let best = candidates.max_by_key(|row| open.iter().filter(|pair| has(row, pair)).count());
        let row = best.unwrap();
        open.retain(|pair| !has(&row, pair));
        rows.push(row);
    }
    rows
}

fn has(row: &[usize], pair: &[(usize, usize); 2]) -> bool {
    pair.iter().all(|(factor, choice)| row[*factor] == *choice)
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_choices_meet_in_few_rows() {
        let sizes = [5, 4, 6, 3, 2, 2];
        let rows = all_pairs(&sizes);
        for (a, size_a) in sizes.iter().enumerate() {
            for (b, size_b) in sizes.iter().enumerate().filter(|(b, _)| *b > a) {
                for (x, y) in (0..*size_a).flat_map(|x| (0..*size_b).map(move |y| (x, y))) {
                    assert!(rows.iter().any(|row| row[a] == x && row[b] == y));
                }
            }
        }
        assert!(rows.len() < 60, "{} rows instead of 1440", rows.len());
    }
}
