//! Answers in one piece.

use telemetry::openai::{Answer, AnswerMessage, CHAT_COMPLETION, Choice, TEXT_COMPLETION, Usage, UsageField};

use super::{Fault, created, logprobs};
use crate::admit::{Admitted, Style};
use crate::engine::Likelihoods;
use crate::queue::Event;

/// What came of one choice.
#[derive(Clone, Default)]
struct Part {
    text: String,
    likelihoods: Vec<Likelihoods>,
}

/// Waits for all choices.
///
/// # Errors
/// If the engine fails.
///
/// # Cancel safety
/// Dropping the future frees the call's slots.
pub(super) async fn collect(mut admitted: Admitted) -> Result<Answer, Fault> {
    let mut parts = vec![Part::default(); admitted.choices as usize];
    let mut choices = Vec::with_capacity(parts.len());
    let mut output = 0;
    while choices.len() < parts.len() {
        match admitted.events.recv().await {
            Some(Event::Text { choice, text, likelihoods, .. }) => {
                if let Some(part) = parts.get_mut(choice as usize) {
                    part.text.push_str(&text);
                    part.likelihoods.extend(likelihoods.map(|likelihoods| *likelihoods));
                }
            }
            Some(Event::End { choice, reason, tokens }) => {
                output += u64::from(tokens);
                choices.push(Choice {
                    index: choice,
                    finish_reason: Some(reason.name().to_owned()),
                    ..Choice::default()
                });
            }
            Some(event @ (Event::Failed(_) | Event::Expired)) => return Err(Fault::ended(event)),
            None => return Err(Fault::internal("the engine stopped")),
        }
    }
    choices.sort_by_key(|choice| choice.index);
    let asked = admitted.call.sampling.likelihoods.is_some();
    for (choice, Part { text, likelihoods }) in choices.iter_mut().zip(parts) {
        let likelihoods: Vec<&Likelihoods> = likelihoods.iter().collect();
        choice.logprobs = asked.then(|| logprobs::of(admitted.style, &likelihoods, &mut 0));
        match admitted.style {
            Style::Chat => {
                choice.message = Some(AnswerMessage {
                    role: Some("assistant".to_owned()),
                    content: Some(text),
                    ..Default::default()
                });
            }
            Style::Text => choice.text = Some(text),
        }
    }
    let call = &admitted.call;
    let object = if admitted.style == Style::Chat { CHAT_COMPLETION } else { TEXT_COMPLETION };
    Ok(Answer {
        id: call.id.clone(),
        object: object.to_owned(),
        created: created(call.arrival_ns),
        model: call.model.to_string(),
        choices,
        usage: UsageField::Known(Usage::new(call.input_tokens, output)),
    })
}
