//! A safetensors file filled with what passes by: logits, hidden states, routes.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use deltafin_engine::{Engine, LayerId, ModelSpec, Observer, Tap};
use deltafin_spec::FfnKind;

use super::Watch;
use crate::failure::Failure;
use crate::new_file::Unfinished;
use crate::safetensors::{Element, Tensor, Writer};

/// The place of the logits among the tensors.
const LOGITS: usize = 0;

/// A file being filled.
pub(super) struct Recording {
    file: Writer,
    /// For each layer, the place of its hidden states among the tensors.
    hidden: Vec<Option<usize>>,
    /// For each layer, the place of its routes.
    routes: Vec<Option<usize>>,
    /// The first row of the running pass.
    first: usize,
    failure: Option<Failure>,
}

impl Recording {
    /// Begins the file.
    pub(super) fn create(
        path: &Path,
        spec: &ModelSpec,
        positions: usize,
        with_layers: bool,
        unfinished: &Unfinished,
    ) -> Result<Recording, Failure> {
        let mut tensors = Vec::new();
        let mut add = |name: String, element, width| {
            tensors.push(Tensor { name, element, rows: positions, width });
            Some(tensors.len() - 1)
        };
        add("logits".to_owned(), Element::F32, spec.vocab);
        let (mut hidden, mut routes) = (Vec::new(), Vec::new());
        for (layer, kind) in spec.layers.iter().enumerate() {
            hidden.push(match with_layers {
                true => add(format!("hidden.{layer}"), Element::F32, spec.hidden),
                false => None,
            });
            routes.push(match with_layers && kind.ffn == FfnKind::Moe {
                true => add(format!("route.{layer}"), Element::I32, spec.moe.top_k),
                false => None,
            });
        }
        let file = Writer::create(path, tensors, unfinished)?;
        Ok(Recording { file, hidden, routes, first: 0, failure: None })
    }

    /// Runs the ids and gives the file its name, unless interrupted.
    pub(super) fn fill(
        self,
        engine: &Engine,
        ids: &[u32],
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), Failure> {
        // The three callbacks take turns at one file.
        let recording = RefCell::new(self);
        let evaluated = engine.session().evaluate(
            ids,
            &mut Layers { recording: &recording, watch: Watch(interrupted) },
            &mut |first| {
                recording.borrow_mut().first = first;
                progress(first);
            },
            &mut |first, rows| recording.borrow_mut().floats(Some(LOGITS), first, rows),
        );
        let Recording { file, failure, .. } = recording.into_inner();
        if let Some(failure) = failure {
            return Err(failure);
        }
        evaluated?;
        if interrupted.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Failure::Interrupted);
        }
        file.finish()
    }

    fn floats(&mut self, place: Option<usize>, first: usize, values: &[f32]) {
        let Some(place) = place else { return };
        let written = self.file.rows(place, first, values);
        self.keep(written);
    }

    fn route(&mut self, layer: usize, row: usize, experts: &[u32]) {
        let Some(place) = self.routes[layer] else { return };
        let experts: Vec<i32> = experts.iter().map(|&expert| expert as i32).collect();
        let written = self.file.numbers(place, self.first + row, &experts);
        self.keep(written);
    }

    /// Remembers the first failure: the callbacks cannot return one.
    fn keep(&mut self, written: Result<(), Failure>) {
        if let Err(failure) = written {
            self.failure.get_or_insert(failure);
        }
    }
}

/// The recording, as an observer of passes.
struct Layers<'a> {
    recording: &'a RefCell<Recording>,
    watch: Watch<'a>,
}

impl Observer for Layers<'_> {
    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        match self.recording.borrow().failure {
            Some(_) => ControlFlow::Break(()),
            None => self.watch.layer(layer),
        }
    }

    fn rows(&mut self, layer: LayerId, tap: Tap, first: usize, values: &[f32]) {
        if tap == Tap::Hidden {
            let mut recording = self.recording.borrow_mut();
            let (place, row) = (recording.hidden[layer.index()], recording.first + first);
            recording.floats(place, row, values);
        }
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], _weights: &[f32]) {
        self.recording.borrow_mut().route(layer.index(), row, experts);
    }
}
