//! A plan in words.

use crate::{Plan, Size};
use std::fmt;

impl fmt::Display for Plan {
    /// A few lines, each a label and what it stands for; no line break at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |label: &str, bytes: u64, words: String| {
            writeln!(f, "{label:<16}{:>10}  {words}", Size(bytes).to_string())
        };
        line("memory budget", self.budget, "the most this process will have resident".into())?;
        line("  fixed", self.fixed, "program, catalog, tokenizer".into())?;
        line("  state", self.state, "of one conversation at its longest".into())?;
        if self.snapshots > 0 {
            line("  snapshots", self.snapshots, "of earlier conversations, to go on from".into())?;
        }
        if self.requests > 0 {
            line("  requests", self.requests, "to the server, coming and being read".into())?;
        }
        if self.besides > 0 {
            line(
                "  besides",
                self.besides,
                "what the command takes, or experts on their way".into(),
            )?;
        }
        line(
            "  workspace",
            self.workspace,
            format!("for {} prompt rows at a time", self.chunk_rows),
        )?;
        let working = self.working_slabs() as u64 * self.expert_room;
        line(
            "  expert reads",
            working,
            format!("room for {}", count(self.working_slabs(), "expert")),
        )?;
        line("  spine", self.spine_resident_bytes, self.spine_words())?;
        if self.spine_stream_bytes > 0 {
            line("  spine reads", self.spine_stream_bytes, "room to read the rest ahead".into())?;
        }
        let cache = self.cache as u64 * self.expert_room;
        line("  expert cache", cache, self.cache_words())?;
        write!(f, "{:<16}{:>10}  unused", "  left", Size(self.budget - self.bytes()).to_string())
    }
}

impl Plan {
    fn spine_words(&self) -> String {
        let Some((head, layers)) = self.spine_resident.split_last() else { return String::new() };
        let held = layers.iter().filter(|stays| **stays).count();
        let (layers, head) = (layers.len(), if *head { "and the output head" } else { "" });
        let words = format!("{held} of {layers} layers {head}");
        match self.is_spine_resident() {
            true => format!("all {layers} layers and the output head stay"),
            false => format!("{} stay; the rest is read for every token", words.trim_end()),
        }
    }

    fn cache_words(&self) -> String {
        match self.experts {
            0 => "no experts".to_owned(),
            all if self.cache == all => format!("all {all} experts stay"),
            all if self.pinned == 0 => format!("{} of {all}", count(self.cache, "expert")),
            all => {
                let pinned = self.pinned;
                format!("{} of {all}, {pinned} of them for good", count(self.cache, "expert"))
            }
        }
    }
}

fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
