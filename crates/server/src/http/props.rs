//! What user interfaces probe for: what is served, and whether it is at work. Nothing can be set here.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::json as document;
use crate::app::App;

/// `/props`: the model, and that one generation runs at a time.
pub(super) async fn props(State(app): State<Arc<App>>) -> Response {
    let context = app.model.get().map(|model| model.backend.facts().context);
    let told = json!({
        "model_alias": app.settings.model,
        "total_slots": 1,
        "default_generation_settings": { "n_ctx": context },
        "modalities": { "vision": false, "audio": false },
        "build_info": concat!("deltafin ", env!("CARGO_PKG_VERSION")),
    });
    document(StatusCode::OK, &told)
}

/// `/slots`: the one there is, and who waits for it.
pub(super) async fn slots(State(app): State<Arc<App>>) -> Response {
    let gauges = app.gauges();
    let context = app.model.get().map(|model| model.backend.facts().context);
    let slot = json!({
        "id": 0, "n_ctx": context, "is_processing": gauges.busy, "queued": gauges.queue_depth,
    });
    document(StatusCode::OK, &json!([slot]))
}
