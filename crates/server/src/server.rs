//! The life of a server: a bound port, connections, an end within a stated time.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use deltafin_text::Tokenizer;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::app::{App, Model, Phase};
use crate::backend::Backend;
use crate::connection::{Stay, converse};
use crate::http;
use crate::line::Line;
use crate::lines::Lines;
use crate::log::Entry;
use crate::settings::Settings;

/// Connections that may be about to end while others take their places.
const ENDING_MAX: usize = 64;
/// Threads that may read and tokenize long requests at a time.
const BLOCKING_THREADS: usize = 4;
/// What broken-off connections have to hear of it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that runs. It answers from the start; the model comes with [`Server::ready`].
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    runtime: Runtime,
    address: SocketAddr,
    alive: mpsc::Receiver<()>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Serves on a port that is bound. `log` gets each thing worth knowing.
    ///
    /// # Errors
    /// When the socket or the threads cannot be had.
    pub fn start(
        listener: TcpListener,
        settings: Settings,
        log: impl Fn(&Entry) + Send + Sync + 'static,
    ) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let app = Arc::new(App::new(settings, address.ip().is_loopback(), Box::new(log)));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("http")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (living, alive) = mpsc::channel(1);
        let accepting = runtime.spawn(accept(app.clone(), listener, living));
        Ok(Server { app, runtime, address, alive, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests are answered from now on.
    pub fn ready(&self, tokenizer: Tokenizer, backend: impl Backend) {
        // A second model is no use to anybody: the first one stays.
        let _ = self.app.model.set(Model::new(tokenizer, backend, &self.app.settings));
    }

    /// Ends: takes nothing new, lets the running generation finish within the grace, breaks off
    /// what still runs, and leaves it two seconds to be heard. Until then newcomers are told so.
    pub fn shut_down(mut self) {
        let grace = self.app.settings.shutdown_grace;
        self.app.phase.send_replace(Phase::Draining);
        let alive = &mut self.alive;
        self.runtime.block_on(async {
            if timeout(grace, alive.recv()).await.is_err() {
                self.app.phase.send_replace(Phase::Ending);
                let _ = timeout(LAST_WORDS, alive.recv()).await;
            }
            // The port is free when it has ended, not some time later.
            self.accepting.abort();
            let _ = self.accepting.await;
        });
        self.runtime.shutdown_background();
    }
}

/// Takes connections until the server has ended. `living` is held by each that came before it was asked to, so its end is
/// theirs. Who comes later is told that nothing is taken any more, and holds up nothing.
async fn accept(app: Arc<App>, listener: tokio::net::TcpListener, living: mpsc::Sender<()>) {
    let tasks = Arc::new(Semaphore::new(Lines::most_of(app.settings.connections) + ENDING_MAX));
    let mut living = Some(living);
    let router = http::router(&app);
    loop {
        let Ok(task) = tasks.clone().acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = app.drains(), if living.is_some() => {
                living = None;
                continue;
            }
        };
        match stream {
            Ok((stream, _)) => {
                let line = Arc::new(Line::new(stream));
                let place = app.lines.enter(&line);
                let (app, router, living) = (app.clone(), router.clone(), living.clone());
                tokio::spawn(async move {
                    let stay = match living {
                        None => Stay::Late,
                        Some(_) if place.is_guest => Stay::Guest,
                        Some(_) => Stay::Usual,
                    };
                    converse(&app, router, line, stay).await;
                    drop((place, task, living));
                });
            }
            // Out of descriptors, or a client that left at the door: others may do better soon.
            Err(error) => {
                let words = format!("cannot accept a connection: {error}");
                app.log(&Entry::new("accept_error", words));
                app.lines.make_room();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
