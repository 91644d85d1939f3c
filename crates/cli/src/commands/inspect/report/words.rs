//! A checkpoint in words.

use std::fmt::{Result, Write as _};

use super::{Dimensions, Experts, Layer, Report, Sizes, Vocabulary};
use crate::stats::bytes;
use crate::terminal::one_line;

impl Report {
    /// The same for people.
    pub(in crate::commands::inspect) fn words(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> Result {
        let Dimensions { layers, kda_layers, mla_layers, dense_layers, moe_layers, .. } =
            self.dimensions;
        let Dimensions { hidden, vocab, max_positions, .. } = self.dimensions;
        if let Some(identity) = &self.identity {
            writeln!(out, "identity      {identity}")?;
        }
        writeln!(
            out,
            "layers        {layers}: {kda_layers} kda and {mla_layers} mla, \
             {dense_layers} dense and {moe_layers} moe"
        )?;
        writeln!(
            out,
            "width         {hidden}, vocabulary {vocab}, up to {max_positions} positions"
        )?;
        self.write_experts(out)?;
        self.write_tokens(out)?;
        self.bytes.write(out, self.shards)?;
        for pack in &self.packs {
            writeln!(out, "pack          {}", one_line(&pack.words()))?;
        }
        for notice in &self.notices {
            writeln!(out, "notice        {}", one_line(notice))?;
        }
        self.write_layers(out)
    }

    fn write_experts(&self, out: &mut String) -> Result {
        let Experts { per_layer, chosen, shared, record_bytes, token_bytes } = self.experts;
        writeln!(
            out,
            "experts       {per_layer} per layer, {chosen} chosen, {shared} shared; {} each, {} per token",
            bytes(record_bytes),
            bytes(token_bytes)
        )?;
        match &self.gathered {
            Some(gathered) => writeln!(out, "gathered      {}", gathered.words()),
            None => Ok(()),
        }
    }

    fn write_tokens(&self, out: &mut String) -> Result {
        match &self.tokenizer {
            Some(Vocabulary { ranks, special }) => {
                writeln!(out, "tokenizer     {ranks} ranks and {special} special ids")?;
            }
            None => writeln!(out, "tokenizer     none: ids only")?,
        }
        let ids: Vec<String> = self.stop_ids.iter().map(u32::to_string).collect();
        writeln!(out, "stop ids      {}", ids.join(" "))
    }

    fn write_layers(&self, out: &mut String) -> Result {
        let here = if self.gathered.is_some() { "   here" } else { "" };
        writeln!(out, "\nlayer  attention  ffn         spine  experts   expert bytes{here}")?;
        for layer in &self.layers {
            let here = layer.experts_here.map_or_else(String::new, |here| format!("  {here:>5}"));
            let Layer { layer, attention, ffn, spine_bytes, experts, expert_bytes, .. } = layer;
            let (spine, expert) = (bytes(*spine_bytes), bytes(*expert_bytes));
            writeln!(
                out,
                "{layer:>5}  {attention:<9}  {ffn:<5} {spine:>11}  {experts:>7}  {expert:>13}{here}"
            )?;
        }
        writeln!(out)
    }
}

impl Sizes {
    fn write(&self, out: &mut String, shards: usize) -> Result {
        writeln!(out, "files         {shards} shards, {}", bytes(self.files))?;
        for (kind, amount) in [
            ("spine", self.spine),
            ("experts", self.experts),
            ("embedding", self.embedding),
            ("head", self.head),
            ("norms", self.norms),
            ("not used", self.ignored),
            ("headers", self.headers),
        ] {
            let share = 100.0 * amount as f64 / self.files.max(1) as f64;
            writeln!(out, "  {kind:<10}  {:>11}  {share:5.1} %", bytes(amount))?;
        }
        Ok(())
    }
}
