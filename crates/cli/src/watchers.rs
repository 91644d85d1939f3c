//! What watches a run beside its listener: the profile, the trace, the routes.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use deltafin_engine::{
    Engine, Observer, Profile, ProfileReport, RouteLines, Session, Several, Trace,
};

use crate::args::Watched;
use crate::failure::Failure;
use crate::new_file::{self, NewFile, Unfinished};
use crate::target::foreign_target;

/// Written when it is full, or at the end.
const BUFFER_BYTES: usize = 1 << 18;

/// Those that were asked for.
pub(crate) struct Watchers<'e> {
    profile: Option<Rc<RefCell<Profile<'e>>>>,
    trace: Option<Recorded<Trace<BufWriter<File>>>>,
    routes: Option<Recorded<RouteLines<BufWriter<File>>>>,
}

/// An observer that writes, and the file that gets its name when it is done.
struct Recorded<O> {
    observer: Rc<RefCell<O>>,
    file: NewFile,
}

/// Refuses names that cannot be had: that should not cost a wait.
pub(crate) fn check(asked: &Watched) -> Result<(), Failure> {
    files(asked).try_for_each(|file| new_file::target(file).map(|_| ()))?;
    match (&asked.trace, &asked.routes) {
        (Some(trace), Some(routes)) if new_file::is_same(trace, routes)? => Err(Failure::new(
            format!("{}: --trace and --route-trace need a file each", routes.display()),
        )),
        _ => Ok(()),
    }
}

/// Refuses names among the files of the model that is watched, in these folders.
pub(crate) fn check_beside<'f>(
    asked: &Watched,
    folders: impl Iterator<Item = &'f Path> + Clone,
) -> Result<(), Failure> {
    files(asked).try_for_each(|file| foreign_target(file, folders.clone()).map(|_| ()))
}

fn files(asked: &Watched) -> impl Iterator<Item = &Path> {
    asked.trace.iter().chain(&asked.routes).map(PathBuf::as_path)
}

impl<'e> Watchers<'e> {
    /// Lets them watch a session, from now on.
    pub(crate) fn begin(
        asked: &Watched,
        engine: &'e Engine,
        session: &mut Session<'e>,
        unfinished: &Unfinished,
    ) -> Result<Watchers<'e>, Failure> {
        let (spec, stream) = (engine.spec(), engine.weights().stream());
        let mut all = Several::default();
        let profile = asked.profile.then(|| shared(&mut all, Profile::new(spec, Some(stream))));
        let trace = asked.trace.as_deref().map(|path| {
            Recorded::begin(path, unfinished, &mut all, |out| Trace::new(out, spec, Some(stream)))
        });
        let routes = asked.routes.as_deref().map(|path| {
            Recorded::begin(path, unfinished, &mut all, |out| RouteLines::new(out, spec))
        });
        let watchers = Watchers { profile, trace: trace.transpose()?, routes: routes.transpose()? };
        session.watch(Box::new(all));
        Ok(watchers)
    }

    /// Gives files their names; says what the profile found.
    pub(crate) fn finish(self) -> Result<Option<ProfileReport>, Failure> {
        if let Some(trace) = self.trace {
            trace.finish(Trace::finish)?;
        }
        if let Some(routes) = self.routes {
            routes.finish(RouteLines::finish)?;
        }
        Ok(self.profile.map(|profile| profile.borrow_mut().report()))
    }
}

impl<O: Observer> Recorded<O> {
    fn begin<'e>(
        path: &Path,
        unfinished: &Unfinished,
        all: &mut Several<'e>,
        observer: impl FnOnce(BufWriter<File>) -> O,
    ) -> Result<Recorded<O>, Failure>
    where
        O: 'e,
    {
        let mut file = NewFile::create(path, unfinished)?;
        let out = file.file().try_clone().map_err(|e| file.cannot_write(&e))?;
        let observer = observer(BufWriter::with_capacity(BUFFER_BYTES, out));
        Ok(Recorded { observer: shared(all, observer), file })
    }

    fn finish(self, finish: impl FnOnce(&mut O) -> std::io::Result<()>) -> Result<(), Failure> {
        let Recorded { observer, file } = self;
        finish(&mut observer.borrow_mut()).map_err(|e| file.cannot_write(&e))?;
        file.finish()
    }
}

/// Adds an observer that is asked afterwards.
fn shared<'e, O: Observer + 'e>(all: &mut Several<'e>, observer: O) -> Rc<RefCell<O>> {
    let observer = Rc::new(RefCell::new(observer));
    all.add(Box::new(Rc::clone(&observer)));
    observer
}
