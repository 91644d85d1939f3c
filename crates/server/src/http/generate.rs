//! The endpoints that generate. Everything that can be refused is refused before the queue.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, Version};
use axum::response::Response;
use deltafin_text::reply::{Channel, ReplyOptions};

use super::answer::{streamed, whole};
use super::body::{Payload, off_thread};
use super::guard::RequestId;
use super::prompt::{OPENING_TOKENS, render, room};
use super::{ApiError, set};
use crate::app::{App, Model, now_s};
use crate::choice::Chooser;
use crate::generation::{Generation, Plan, Wish};
use crate::guide::{Form, Guide};
use crate::line::Line;
use crate::reader::Reader;
use crate::request::fields::{Fields, shown};
use crate::request::{Chat, Options, Policy, chat, completion};
use crate::response::{Head, Shape};

/// A request that may join the queue.
pub(super) struct Prepared {
    plan: Plan,
    shape: Shape,
    options: Options,
}

/// Who asks how, and where the client is.
pub(super) type Asked = (State<Arc<App>>, Extension<RequestId>, Version, Extension<Arc<Line>>);

/// `/v1/chat/completions`.
pub(super) async fn chat(asked: Asked, body: Payload) -> Result<Response, ApiError> {
    generate(asked, body, prepare_chat).await
}

/// `/v1/completions`.
pub(super) async fn completion(asked: Asked, body: Payload) -> Result<Response, ApiError> {
    generate(asked, body, prepare_completion).await
}

/// Prepares a request, has it generated, and answers.
pub(super) async fn generate(
    (State(app), Extension(RequestId(id)), version, Extension(line)): Asked,
    body: Payload,
    prepare: fn(&App, &Model, &Fields<'_>) -> Result<Prepared, ApiError>,
) -> Result<Response, ApiError> {
    // Within the context, what was made of it is small.
    let (Prepared { mut plan, shape, options }, _) = body.read(app.clone(), prepare).await?;
    plan.guide = guided(&app, &plan.wish).await?;
    // Whoever was asked to end while this was read takes nothing new.
    app.model()?;
    let generation = Generation::join(&app, plan, id, shape.id().to_owned())?;
    line.generates();
    let mut response = match options.stream {
        true => streamed(&app, generation, shape, line),
        false => whole(&app, generation, shape, version, line).await,
    };
    tell(response.headers_mut(), &options);
    Ok(response)
}

pub(super) fn check_model(app: &App, fields: &Fields<'_>) -> Result<(), ApiError> {
    let served = &app.settings.model;
    match fields.string("model")? {
        Some(asked)
            if !asked.is_empty()
                && asked != served
                && !app.settings.aliases.iter().any(|alias| alias == asked) =>
        {
            Err(ApiError::model(&shown(asked), served))
        }
        _ => Ok(()),
    }
}

fn prepare_chat(app: &App, model: &Model, fields: &Fields<'_>) -> Result<Prepared, ApiError> {
    check_model(app, fields)?;
    let chat = chat::read(fields, policy(app, &fresh_seed(app)))?;
    let thinking = chat.request.thinking;
    prepare(app, model, chat, ("messages", "chatcmpl-"), |head| Shape::chat(head, thinking))
}

/// A chat, whose prompt comes from `param` and whose reply is named and told as its dialect has it.
pub(super) fn prepare(
    app: &App,
    model: &Model,
    chat: Chat,
    (param, prefix): (&str, &str),
    shape: impl FnOnce(Head) -> Shape,
) -> Result<Prepared, ApiError> {
    let Chat { request, results, reply, form, mut options } = chat;
    options.max_new = options.max_new.or(app.settings.default_max_tokens);
    let prompt = render(model, param, &request, &results)?;
    let max_new = room(model, param, prompt.len(), options.max_new)?;
    let prompt_tokens = prompt.len().saturating_sub(OPENING_TOKENS);
    let reader = Reader::chat(model.tokenizer.clone(), reply.clone());
    let shape = shape(head(app, model, prefix, prompt_tokens, &options));
    let wish = Wish { form, is_chat: true, ..wish(prompt, max_new, reply, &options) };
    Ok(Prepared { plan: plan(wish, reader), shape, options })
}

/// What follows a form, if one is wished for. Compiling a wide one takes a while and all of a core, so they take
/// turns: requests without a form, and all else, go on beside them.
async fn guided(app: &Arc<App>, wish: &Wish) -> Result<Option<Guide>, ApiError> {
    let Some(form) = wish.form.clone() else { return Ok(None) };
    let turn = match app.forms.try_acquire() {
        Ok(turn) => Ok(turn),
        Err(_) => {
            // Who would be turned away after this wait is so before it.
            if !app.runs.has(wish) {
                app.queue.room().map_err(|full| ApiError::busy(full.retry_after_s))?;
            }
            app.forms.acquire().await
        }
    };
    let shared = app.clone();
    let guide = off_thread(move || compiled(shared.model()?, &form)).await;
    drop(turn);
    guide.map(Some)
}

fn compiled(model: &Model, form: &Form) -> Result<Guide, ApiError> {
    Guide::new(model.vocabulary()?, &model.tokenizer, form).map_err(|fault| {
        let message = format!("{} cannot be enforced: {}", shown(&fault.path), fault.reason);
        ApiError::value(&shown(&fault.path), message)
    })
}

fn prepare_completion(app: &App, model: &Model, fields: &Fields<'_>) -> Result<Prepared, ApiError> {
    check_model(app, fields)?;
    let completion::Completion { prompt, stop, options } =
        completion::read(fields, policy(app, &fresh_seed(app)))?;
    let prompt = model.tokenizer.encode_text(&prompt);
    let max_new = room(model, "prompt", prompt.len(), options.max_new)?;
    let head = head(app, model, "cmpl-", prompt.len(), &options);
    let reply = ReplyOptions { stop, ..ReplyOptions::new(Channel::Response) };
    let reader = Reader::raw(model.tokenizer.clone(), reply.clone());
    Ok(Prepared {
        plan: plan(wish(prompt, max_new, reply, &options), reader),
        shape: Shape::text(head),
        options,
    })
}

fn wish(prompt: Vec<u32>, max_new: usize, reply: ReplyOptions, options: &Options) -> Wish {
    let Options { sampling, logprobs, reasoning_limit, .. } = *options;
    let (is_chat, form) = (false, None);
    Wish { prompt, max_new, reply, is_chat, sampling, logprobs, reasoning_limit, form }
}

fn plan(wish: Wish, reader: Reader) -> Plan {
    let chooser = Chooser::new(wish.sampling, wish.logprobs);
    Plan { wish, reader, chooser, guide: None }
}

pub(super) fn fresh_seed(app: &App) -> impl Fn() -> u64 + '_ {
    // As many bits as every client can repeat.
    || app.fresh_number() >> 11
}

pub(super) fn policy<'a>(app: &'a App, fresh_seed: &'a dyn Fn() -> u64) -> Policy<'a> {
    Policy { settings: &app.settings, fresh_seed }
}

fn head(app: &App, model: &Model, prefix: &str, prompt_tokens: usize, options: &Options) -> Head {
    let fingerprint = &model.backend.facts().fingerprint;
    Head {
        id: app.fresh(prefix),
        created: now_s(),
        model: app.settings.model.clone(),
        // Of two replies with one fingerprint, equal requests get equal ones.
        fingerprint: match options.sampling {
            Some(_) => format!("{fingerprint}_sampled"),
            None => fingerprint.clone(),
        },
        prompt_tokens,
        include_usage: options.include_usage,
        ping_chunks: app.settings.ping_chunks,
    }
}

/// What the client should know about how it was understood.
fn tell(headers: &mut HeaderMap, options: &Options) {
    if !options.ignored.is_empty() {
        let names: Vec<String> = options.ignored.iter().map(|name| escaped(name)).collect();
        let names: String = names.join(", ").chars().take(1000).collect();
        set(headers, HeaderName::from_static("x-ignored-parameters"), &names);
    }
    if let Some(effort) = options.mapped_effort {
        set(headers, HeaderName::from_static("x-reasoning-effort"), effort.as_str());
    }
    if let Some(sampling) = options.sampling {
        set(headers, HeaderName::from_static("x-seed"), &sampling.seed.to_string());
    }
}

/// A foreign name as a header can tell it: what is not printable ASCII, or would be taken for two names, is escaped
/// as in JSON.
fn escaped(name: &str) -> String {
    let mut units = [0; 2];
    let mut escape = |c: char| match c {
        ' '..='~' if !matches!(c, ',' | '\\') => c.to_string(),
        _ => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    name.chars().map(&mut escape).collect()
}
