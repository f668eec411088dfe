//! Answers in one piece.

use telemetry::openai::{Answer, AnswerMessage, CHAT_COMPLETION, Choice, TEXT_COMPLETION, Usage, UsageField};

use super::{Fault, created};
use crate::admit::{Admitted, Style};
use crate::queue::Event;

/// Waits for all choices.
///
/// # Errors
/// If the engine fails.
///
/// # Cancel safety
/// Dropping the future frees the call's slots.
pub(super) async fn collect(mut admitted: Admitted) -> Result<Answer, Fault> {
    let mut texts = vec![String::new(); admitted.choices as usize];
    let mut choices = Vec::with_capacity(texts.len());
    let mut output = 0;
    while choices.len() < texts.len() {
        match admitted.events.recv().await {
            Some(Event::Text { choice, text, .. }) => {
                if let Some(all) = texts.get_mut(choice as usize) {
                    all.push_str(&text);
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
    for (choice, text) in choices.iter_mut().zip(texts) {
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
