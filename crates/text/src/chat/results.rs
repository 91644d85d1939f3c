//! Which call each tool result answers, and in which order results are told.
//!
//! Clients run calls in parallel and send results as they come. Promises: a run of results that
//! all answer calls of the last assistant message is put in the order of those calls and
//! takes their names; a run with any stranger in it is left as it is.

use std::collections::HashMap;

use super::{ChatError, Message, ToolCall};

/// A message in the order of the prompt. For a tool message: its name and its count since the
/// last assistant message.
pub(super) struct Placed<'a> {
    pub(super) index: usize,
    pub(super) message: &'a Message,
    pub(super) tool: &'a str,
    pub(super) tool_index: usize,
}

/// The messages in the order of the prompt.
pub(super) fn place(messages: &[Message]) -> Result<Vec<Placed<'_>>, ChatError> {
    let mut placed = Vec::with_capacity(messages.len());
    let mut calls: &[ToolCall] = &[];
    let mut told = 0;
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        let run = messages[at..].iter().take_while(|m| m.role == "tool").count();
        if message.role == "assistant" {
            (calls, told) = (&message.tool_calls, 0);
        }
        if run == 0 {
            placed.push(Placed { index: at, message, tool: "", tool_index: 0 });
        } else {
            place_run(messages, at..at + run, calls, told, &mut placed)?;
            told += run;
        }
        at += run.max(1);
    }
    Ok(placed)
}

fn place_run<'a>(
    messages: &'a [Message],
    run: std::ops::Range<usize>,
    calls: &'a [ToolCall],
    told: usize,
    placed: &mut Vec<Placed<'a>>,
) -> Result<(), ChatError> {
    let mut order: Vec<(usize, Option<usize>)> = run.map(|index| (index, None)).collect();
    if let Some(answered) = answered_calls(messages, &order, calls) {
        order.iter_mut().zip(answered).for_each(|(entry, call)| entry.1 = Some(call));
        order.sort_by_key(|&(_, call)| call);
    }
    for (at, (index, call)) in order.into_iter().enumerate() {
        let (message, position) = (&messages[index], told + at);
        let given = call.map(|call| calls[call].name.as_str()).or_else(|| message.tool_name());
        let tool = given
            .or_else(|| calls.get(position).map(|call| call.name.as_str()))
            .ok_or(ChatError::ToolName { index })?;
        placed.push(Placed { index, message, tool, tool_index: position + 1 });
    }
    Ok(())
}

/// The call each result of the run answers, or nothing if any answers none.
fn answered_calls(
    messages: &[Message],
    run: &[(usize, Option<usize>)],
    calls: &[ToolCall],
) -> Option<Vec<usize>> {
    let mut position = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        if let Some(id) = &call.id {
            position.entry(id.as_str()).or_insert(at);
        }
    }
    run.iter().map(|&(index, _)| position.get(messages[index].answers()?).copied()).collect()
}
