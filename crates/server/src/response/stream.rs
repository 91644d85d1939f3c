//! A reply as it comes: server-sent events.
//!
//! Promises: every event is sent whole; silence never lasts longer than the ping interval,
//! whatever the engine does; after an error nothing follows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::scribe::Scribe;
use crate::app::App;
use crate::generation::{Generation, Step};

/// Where the stream goes.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) pieces: mpsc::Sender<Bytes>,
    /// Silence after which a comment is sent.
    pub(crate) ping: Duration,
    /// A client that takes nothing for so long is gone.
    pub(crate) stall: Duration,
}

/// The client is gone.
struct Gone;

/// Sends a generation to its end. When the client goes, the generation goes with it.
pub(crate) async fn run(
    mut generation: Generation,
    mut scribe: Box<dyn Scribe>,
    app: Arc<App>,
    out: Out,
) {
    let _ = tell(&mut generation, scribe.as_mut(), &app, &out).await;
}

async fn tell(
    generation: &mut Generation,
    scribe: &mut dyn Scribe,
    app: &App,
    out: &Out,
) -> Result<(), Gone> {
    out.send_all(scribe.opening()).await?;
    loop {
        let step = tokio::select! {
            step = generation.next() => step,
            () = out.pieces.closed() => return Err(Gone),
            () = sleep(out.ping), if !out.ping.is_zero() => {
                out.send(scribe.sign_of_life(&generation.status())).await?;
                continue;
            }
        };
        match step {
            Step::Pieces(pieces) => {
                for piece in pieces.iter() {
                    out.send_all(scribe.piece(app, piece)).await?;
                }
            }
            Step::Ended(summary) => return out.send_all(scribe.closing(app, &summary)).await,
            Step::Failed(error) => return out.send_all(scribe.fault(&error)).await,
        }
    }
}

impl Out {
    async fn send_all(&self, events: Vec<String>) -> Result<(), Gone> {
        for event in events {
            self.send(event).await?;
        }
        Ok(())
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        match timeout(self.stall, self.pieces.send(Bytes::from(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
