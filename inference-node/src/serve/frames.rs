//! Answers as server-sent events.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::stream;
use serde::Serialize;
use telemetry::openai::{Answer, AnswerMessage, CHAT_CHUNK, Choice, DONE, TEXT_COMPLETION, Usage, UsageField};

use super::{Fault, created, logprobs};
use crate::admit::{Admitted, Style};
use crate::queue::Event;

/// The response to a streamed call; its body frees the call's slots when it is dropped.
pub(super) fn respond(admitted: Admitted) -> Response {
    let frames = Frames {
        begun: vec![false; admitted.choices as usize],
        tokens: vec![0; admitted.choices as usize],
        offsets: vec![0; admitted.choices as usize],
        open: admitted.choices,
        admitted,
    };
    let body = stream::unfold(Some(frames), |frames| async move {
        let mut frames = frames?;
        let (bytes, ended) = frames.next().await;
        Some((Ok::<_, Infallible>(bytes), (!ended).then_some(frames)))
    });
    let mut response = Response::new(Body::from_stream(body));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The stream of one call.
struct Frames {
    admitted: Admitted,
    /// Choices whose first frame was sent.
    begun: Vec<bool>,
    /// Output tokens of each choice so far.
    tokens: Vec<u32>,
    /// Characters of each choice's tokens so far, where log probabilities were asked for.
    offsets: Vec<usize>,
    /// Choices that go on.
    open: u32,
}

impl Frames {
    /// The frames of the next event, and whether they are the last.
    async fn next(&mut self) -> (Bytes, bool) {
        let mut out = Vec::with_capacity(512);
        let ended = match self.admitted.events.recv().await {
            Some(Event::Text { choice, text, tokens, likelihoods }) => {
                self.count(choice, tokens);
                self.begin(choice, &mut out);
                let mut piece = self.piece(choice, text);
                if let (Some(likelihoods), Some(offset)) = (likelihoods, self.offsets.get_mut(choice as usize)) {
                    piece.logprobs = Some(logprobs::of(self.admitted.style, &[&likelihoods], offset));
                }
                self.chunk(piece, &mut out);
                false
            }
            Some(Event::End { choice, reason, tokens }) => {
                self.count(choice, tokens);
                self.begin(choice, &mut out);
                let mut last = self.piece(choice, String::new());
                last.delta = last.delta.map(|_| AnswerMessage::default());
                last.finish_reason = Some(reason.name().to_owned());
                self.chunk(last, &mut out);
                self.open = self.open.saturating_sub(1);
                self.open == 0
            }
            Some(event @ (Event::Failed(_) | Event::Expired)) => {
                frame(&Fault::ended(event).into_body(), &mut out);
                out.extend_from_slice(format!("data: {DONE}\n\n").as_bytes());
                return (out.into(), true);
            }
            None => {
                frame(&Fault::internal("the engine stopped").into_body(), &mut out);
                return (out.into(), true);
            }
        };
        if ended {
            self.end(&mut out);
        }
        (out.into(), ended)
    }

    fn count(&mut self, choice: u32, tokens: u32) {
        if let Some(count) = self.tokens.get_mut(choice as usize) {
            *count = tokens;
        }
    }

    /// The role, in a chat, before the first text of a choice.
    fn begin(&mut self, choice: u32, out: &mut Vec<u8>) {
        let Some(begun) = self.begun.get_mut(choice as usize) else { return };
        if std::mem::replace(begun, true) || self.admitted.style == Style::Text {
            return;
        }
        let mut first = self.piece(choice, String::new());
        if let Some(delta) = &mut first.delta {
            delta.role = Some("assistant".to_owned());
        }
        self.chunk(first, out);
    }

    fn piece(&self, index: u32, text: String) -> Choice {
        match self.admitted.style {
            Style::Chat => {
                let delta = AnswerMessage { content: Some(text), ..AnswerMessage::default() };
                Choice { index, delta: Some(delta), ..Choice::default() }
            }
            Style::Text => Choice { index, text: Some(text), ..Choice::default() },
        }
    }

    fn chunk(&self, choice: Choice, out: &mut Vec<u8>) {
        let options = self.admitted.stream_options;
        let usage = match (options.continuous_usage_stats, options.include_usage) {
            (true, _) => UsageField::Known(self.usage()),
            (false, true) => UsageField::Null,
            (false, false) => UsageField::Absent,
        };
        frame(&self.answer(vec![choice], usage), out);
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.admitted.stream_options.include_usage {
            frame(&self.answer(Vec::new(), UsageField::Known(self.usage())), out);
        }
        out.extend_from_slice(format!("data: {DONE}\n\n").as_bytes());
    }

    fn usage(&self) -> Usage {
        let output = self.tokens.iter().map(|tokens| u64::from(*tokens)).sum();
        Usage::new(self.admitted.call.input_tokens, output)
    }

    fn answer(&self, choices: Vec<Choice>, usage: UsageField) -> Answer {
        let call = &self.admitted.call;
        let object = if self.admitted.style == Style::Chat { CHAT_CHUNK } else { TEXT_COMPLETION };
        Answer {
            id: call.id.clone(),
            object: object.to_owned(),
            created: created(call.arrival_ns),
            model: call.model.to_string(),
            choices,
            usage,
        }
    }
}

/// Appends one frame. Our own types always serialize; a frame that did not would be left out.
fn frame(value: &impl Serialize, out: &mut Vec<u8>) {
    if let Ok(json) = serde_json::to_vec(value) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&json);
        out.extend_from_slice(b"\n\n");
    }
}
