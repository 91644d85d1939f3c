//! The chat page: one document that asks for nothing elsewhere.
//!
//! Promises: no script runs but the page's own. Each delivery has a nonce of its own, and the
//! policy that names it allows nothing else: no other script or style, no image, no frame, no request to another
//! origin, no text that becomes markup.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
/// They are one module: what runs at once is in the last.
const SCRIPTS: [&str; 8] = [
    include_str!("../page/inline.js"),
    include_str!("../page/markdown.js"),
    include_str!("../page/store.js"),
    include_str!("../page/view.js"),
    include_str!("../page/reply.js"),
    include_str!("../page/export.js"),
    include_str!("../page/live.js"),
    include_str!("../page/app.js"),
];

pub(super) async fn page(State(app): State<Arc<App>>) -> Response {
    let nonce = app.fresh("n");
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    );
    // The nonce first: what follows is longer, and free to have braces.
    let page = PAGE
        .replace("{nonce}", &nonce)
        .replace("{style}", STYLE)
        .replace("{script}", &SCRIPTS.concat());
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        // A nonce is good once.
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, policy.as_str()),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, page).into_response()
}
