//! What happened when, as trace events that browsers show: Chrome's JSON format, which Perfetto reads.
//!
//! **Promise.** On the pass's track spans nest: parts lie in layers, layers in passes. The output head of
//! a prompt, which is computed after its last pass, follows it. Waits are parts like others. A read is a span of its own, from when it was asked for to when it
//! landed. What is over is written at once, so memory does not grow with the length of a trace.

use super::reads::{Read, Reads};
use deltafin_model::{Ids, Observer, Part, PassPlan};
use deltafin_spec::{FfnKind, Half, LayerId, LayerKind, LayerSpec, ModelSpec};
use deltafin_store::drive::Class;
use deltafin_stream::{End, Record, Stream};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Watches a session, and a stream's reads, and writes what happened.
pub struct Trace<O> {
    out: O,
    layers: Box<[LayerSpec]>,
    start: Instant,
    /// Where it stands, and what it does.
    pass: Option<Span<(usize, PassPlan)>>,
    layer: Option<Span<LayerId>>,
    part: Option<Span<Part>>,
    reads: Arc<Reads>,
    reads_written: u64,
    failure: Option<io::Error>,
}

/// Something that began so many nanoseconds after the trace.
#[derive(Clone, Copy)]
struct Span<T> {
    began: u64,
    what: T,
}

const HEAD: &str = r#"{"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"forward pass"}}"#;

impl<O: Write> Trace<O> {
    /// Begins, and writes to `out` in small pieces. `stream` is what brings the weights, where that is
    /// known; its reads are in the trace until another watches them.
    pub fn new(mut out: O, spec: &ModelSpec, stream: Option<&Stream>) -> Trace<O> {
        let start = Instant::now();
        let reads = Arc::new(Reads::new(start));
        if let Some(stream) = stream {
            let watcher: Weak<Reads> = Arc::downgrade(&reads);
            stream.watch_reads(watcher);
        }
        Trace {
            failure: out.write_all(HEAD.as_bytes()).err(),
            out,
            layers: spec.layers.iter().copied().collect(),
            start,
            pass: None,
            layer: None,
            part: None,
            reads,
            reads_written: 0,
        }
    }

    /// Writes what is still open as if it ended here, and the end.
    ///
    /// # Errors
    /// The first one of writing; nothing more was written after it, and passes went on.
    pub fn finish(&mut self) -> io::Result<()> {
        self.close(Depth::Pass);
        self.keep(|trace| trace.out.write_all(b"\n]}\n").and_then(|()| trace.out.flush()));
        self.failure.take().map_or(Ok(()), Err)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Ends what runs, down to this depth.
    fn close(&mut self, depth: Depth) {
        let now = self.now();
        self.keep(|trace| trace.write_part(now));
        if depth <= Depth::Layer {
            self.keep(|trace| trace.write_layer(now));
        }
        if depth == Depth::Pass {
            self.keep(|trace| trace.write_pass(now));
        }
        self.keep(Trace::write_reads);
    }

    /// Remembers the first failure: observers cannot return one.
    fn keep(&mut self, write: impl FnOnce(&mut Trace<O>) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(self).err();
        }
    }

    fn write_part(&mut self, now: u64) -> io::Result<()> {
        let Some(Span { began, what }) = self.part.take() else { return Ok(()) };
        let (ts, dur) = (micros(began), micros(now - began));
        let name = what.name();
        write!(
            self.out,
            ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"cat\":\"part\",\"ts\":{ts},\"dur\":{dur},\"name\":\"{name}\"}}"
        )
    }

    fn write_layer(&mut self, now: u64) -> io::Result<()> {
        let Some(Span { began, what }) = self.layer.take() else { return Ok(()) };
        let (ts, dur) = (micros(began), micros(now - began));
        let LayerSpec { attention, ffn } = self.layers[what.index()];
        let attention = match attention {
            LayerKind::Kda => "KDA",
            LayerKind::Mla => "MLA",
        };
        let ffn = match ffn {
            FfnKind::Dense => "dense",
            FfnKind::Moe => "MoE",
        };
        write!(
            self.out,
            ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"cat\":\"layer\",\"ts\":{ts},\"dur\":{dur},\"name\":\"layer {}\",\
             \"args\":{{\"attention\":\"{attention}\",\"feed_forward\":\"{ffn}\"}}}}",
            what.number()
        )
    }

    fn write_pass(&mut self, now: u64) -> io::Result<()> {
        let Some(Span { began, what: (position, pass) }) = self.pass.take() else {
            return Ok(());
        };
        let (ts, dur) = (micros(began), micros(now - began));
        let name = match pass.ids {
            Ids::Prompt => "prefill",
            Ids::Reply => "decode",
        };
        write!(
            self.out,
            ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"cat\":\"pass\",\"ts\":{ts},\"dur\":{dur},\"name\":\"{name}\",\
             \"args\":{{\"position\":{position},\"rows\":{}}}}}",
            pass.rows
        )
    }

    fn write_reads(&mut self) -> io::Result<()> {
        self.reads.take().iter().try_for_each(|read| self.write_read(read))
    }

    fn write_read(&mut self, read: &Read) -> io::Result<()> {
        let Read { record, class, bytes, asked, promoted, landed, end } = *read;
        let name = match record {
            Record::Spine(layer, half) => {
                let half = match half {
                    Half::Attention => "attention",
                    Half::Ffn => "feed-forward",
                };
                format!("spine of layer {}, {half}", layer.number())
            }
            Record::Head => "head".to_owned(),
            Record::Expert(layer, expert) => {
                format!("layer {} expert {}", layer.number(), expert.index())
            }
        };
        self.reads_written += 1;
        let event = format!(
            "\"pid\":1,\"tid\":2,\"cat\":\"read\",\"id\":{},\"name\":\"{name}\"",
            self.reads_written
        );
        let waited = promoted.map_or_else(|| "null".to_owned(), micros);
        write!(
            self.out,
            ",\n{{\"ph\":\"b\",{event},\"ts\":{},\"args\":{{\"class\":\"{}\",\"bytes\":{bytes},\
             \"waited_for_from\":{waited},\"end\":\"{}\"}}}}\
             ,\n{{\"ph\":\"e\",{event},\"ts\":{}}}",
            micros(asked),
            class_name(class),
            end_name(end),
            micros(landed),
        )
    }
}

/// How far up what ends reaches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Depth {
    Pass,
    Layer,
    Part,
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Demand => "demand",
        Class::Ahead => "ahead",
        Class::Guess => "guess",
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Whole => "whole",
        End::Cancelled => "cancelled",
        End::Failed => "failed",
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

impl<O: Write> Observer for Trace<O> {
    fn pass(&mut self, position: usize, pass: PassPlan) {
        self.close(Depth::Pass);
        self.pass = Some(Span { began: self.now(), what: (position, pass) });
    }

    fn part(&mut self, part: Part) {
        self.close(match part {
            Part::Outside => Depth::Pass,
            Part::Head => Depth::Layer,
            _ => Depth::Part,
        });
        if part != Part::Outside {
            self.part = Some(Span { began: self.now(), what: part });
        }
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.close(Depth::Layer);
        self.layer = Some(Span { began: self.now(), what: layer });
        ControlFlow::Continue(())
    }
}
