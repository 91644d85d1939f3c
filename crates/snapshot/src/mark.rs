//! Positions worth returning to.

/// Besides the positions that are named, one every so many.
pub const STRIDE: usize = 4096;

/// Two snapshots that are closer serve as well as one, unless somebody insists on both.
const NEAR: usize = 64;
/// Below this a prompt is as quickly taken in again.
const NEAR_LASTING: usize = 4;

/// A position of a prompt that a later one is likely to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// So many tokens precede it.
    pub position: usize,
    /// Whether it is worth a place on the drive.
    pub lasting: bool,
}

/// A preamble that is shorter is as quickly taken in again as read.
const LONG_PREAMBLE: usize = 512;

impl Mark {
    /// The marks of a conversation, the most valuable first: `reply` is where the answer begins, which is
    /// as far as the next turn agrees even if what was thought is left out of it; `preamble` the end of
    /// what conversations of one kind begin with; `ends` those of all messages.
    pub fn of_conversation(reply: usize, preamble: Option<usize>, ends: &[usize]) -> Vec<Mark> {
        let preamble =
            preamble.map(|position| Mark { position, lasting: position >= LONG_PREAMBLE });
        let ends = ends.iter().rev().map(|&position| Mark { position, lasting: false });
        [Mark { position: reply, lasting: true }].into_iter().chain(preamble).chain(ends).collect()
    }
}

/// Which of `marks`, the most valuable first, to keep of a prompt whose positions after `from` up to
/// `end` are about to be computed.
pub(crate) fn choose(marks: &[Mark], from: usize, end: usize) -> Vec<Mark> {
    let strides = (from / STRIDE + 1..=end / STRIDE).rev();
    let strides = strides.map(|n| Mark { position: n * STRIDE, lasting: false });
    let mut chosen: Vec<Mark> = Vec::new();
    for mark in marks.iter().copied().chain(strides) {
        let near = if mark.lasting { NEAR_LASTING } else { NEAR };
        let is_apart = chosen.iter().all(|other| other.position.abs_diff(mark.position) >= near);
        if (from + 1..=end).contains(&mark.position) && mark.position >= near && is_apart {
            chosen.push(mark);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_comes_first_then_the_preamble_then_the_last_messages() {
        let marks = Mark::of_conversation(700, Some(600), &[300, 600, 690]);
        let positions: Vec<usize> = marks.iter().map(|mark| mark.position).collect();
        assert_eq!(positions, [700, 600, 690, 600, 300]);
        let lasting: Vec<bool> = marks.iter().map(|mark| mark.lasting).collect();
        assert_eq!(lasting, [true, true, false, false, false]);
    }

    fn mark(position: usize) -> Mark {
        Mark { position, lasting: false }
    }

    #[test]
    fn the_first_of_two_neighbours_wins() {
        let reply = Mark { position: 500, lasting: true };
        let marks = [reply, mark(490), mark(300), mark(30), mark(299)];
        assert_eq!(choose(&marks, 0, 503), [reply, mark(300)]);
    }

    #[test]
    fn what_is_behind_or_beyond_is_left_out_and_strides_fill_in() {
        let chosen = choose(&[mark(100), mark(9000), mark(4100)], 100, 8192);
        assert_eq!(chosen, [mark(4100), mark(8192)]);
        assert_eq!(choose(&[], 4096, 4097), []);
        assert_eq!(choose(&[], 4095, 4096), [mark(4096)]);
    }
}
