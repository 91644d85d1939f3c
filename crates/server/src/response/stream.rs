//! A reply as it comes: server-sent events.
//!
//! Promises: every event is sent whole; silence never lasts longer than the ping interval,
//! whatever the engine does; after an error nothing follows.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::Shape;
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
pub(crate) async fn run(mut generation: Generation, shape: Shape, app: Arc<App>, out: Out) {
    let _ = tell(&mut generation, &shape, &app, &out).await;
}

async fn tell(
    generation: &mut Generation,
    shape: &Shape,
    app: &App,
    out: &Out,
) -> Result<(), Gone> {
    if let Some(opening) = shape.opening() {
        out.event(&opening).await?;
    }
    loop {
        let step = tokio::select! {
            step = generation.next() => step,
            () = out.pieces.closed() => return Err(Gone),
            () = sleep(out.ping), if !out.ping.is_zero() => {
                out.send(format!(": {}\n\n", generation.status())).await?;
                continue;
            }
        };
        match step {
            Step::Pieces(pieces) => {
                for piece in pieces.iter().flat_map(|piece| shape.pieces(app, piece)) {
                    out.event(&piece).await?;
                }
            }
            Step::Ended(summary) => {
                for piece in shape.closing(&summary) {
                    out.event(&piece).await?;
                }
                return out.send("data: [DONE]\n\n".to_owned()).await;
            }
            Step::Failed(error) => return out.event(&error.document()).await,
        }
    }
}

impl Out {
    async fn event(&self, document: &Value) -> Result<(), Gone> {
        self.send(format!("data: {document}\n\n")).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        match timeout(self.stall, self.pieces.send(Bytes::from(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
