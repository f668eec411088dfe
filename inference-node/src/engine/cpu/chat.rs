//! From chat messages to the prompt that the model was trained on.

use minijinja::{Environment, context};
use serde::Serialize;
use serde_json::Value;

use super::checkpoint::Checkpoint;
use super::gguf::{Fault, Gguf};
use super::safetensors::{Safetensors, json};
use crate::engine::{ChatMessage, EngineError};

/// Used where the file brings no template: the plain ChatML form.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
                      {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The chat template of one model.
pub(crate) struct Template {
    environment: Environment<'static>,
    begin: String,
    end: String,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'a str,
    content: &'a str,
}

impl Template {
    /// Compiles the model's template.
    pub(crate) fn load(model: &Checkpoint) -> Result<Self, Fault> {
        match model {
            Checkpoint::Gguf(file) => Self::from_gguf(file),
            Checkpoint::Safetensors(files) => Self::from_json(files),
        }
    }

    /// From `tokenizer_config.json`, or `chat_template.jinja` beside it.
    fn from_json(files: &Safetensors) -> Result<Self, Fault> {
        let settings = match files.directory().join("tokenizer_config.json").is_file() {
            true => json(files.directory(), "tokenizer_config.json")?,
            false => Value::Null,
        };
        let own = std::fs::read_to_string(files.directory().join("chat_template.jinja")).ok();
        let source = own.as_deref().or_else(|| settings["chat_template"].as_str()).unwrap_or(CHATML);
        let spelled = |key: &str| {
            let token = settings[key].as_str().or_else(|| settings[key]["content"].as_str());
            token.unwrap_or_default().to_owned()
        };
        Self::compile(source, spelled("bos_token"), spelled("eos_token"))
            .map_err(|error| files.fault(format!("has an unusable chat template: {error}")))
    }

    fn from_gguf(file: &Gguf) -> Result<Self, Fault> {
        let source = file.text("tokenizer.chat_template").unwrap_or(CHATML);
        let tokens = file.texts("tokenizer.ggml.tokens")?;
        let spelled = |key: &str| file.id(key).and_then(|id| tokens.get(id as usize)).cloned().unwrap_or_default();
        let (begin, end) = (spelled("tokenizer.ggml.bos_token_id"), spelled("tokenizer.ggml.eos_token_id"));
        Self::compile(source, begin, end).map_err(|error| file.fault(format!("has an unusable chat template: {error}")))
    }

    fn compile(source: &str, begin: String, end: String) -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        // Templates are written for Python's renderer with these two switched on.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.add_function("raise_exception", |reason: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, reason))
        });
        environment.add_template_owned("chat", source.to_owned())?;
        Ok(Self { environment, begin, end })
    }

    /// The prompt, ending where the assistant's answer begins.
    pub(crate) fn render(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        let turns: Vec<Turn<'_>> =
            messages.iter().map(|message| Turn { role: &message.role, content: &message.content }).collect();
        let values = context! {
            messages => turns,
            add_generation_prompt => true,
            bos_token => self.begin,
            eos_token => self.end,
        };
        let prompt = self.environment.get_template("chat").and_then(|template| template.render(values));
        prompt.map_err(|error| EngineError::Input {
            reason: format!("the model's chat template refuses the messages: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> ChatMessage {
        ChatMessage { role: role.to_owned(), content: content.to_owned() }
    }

    /// The plain form is ChatML, open at the assistant's turn.
    #[test]
    fn plain_template_is_chatml() {
        let template = Template::compile(CHATML, String::new(), String::new()).unwrap();
        let prompt = template.render(&[message("system", "Be brief."), message("user", "Hi {{ 1 }}")]).unwrap();
        let expected =
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi {{ 1 }}<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(prompt, expected);
    }

    /// A template that rejects the messages is the client's fault, with the template's reason.
    #[test]
    fn template_can_refuse() {
        let source = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}ok";
        let template = Template::compile(source, String::new(), String::new()).unwrap();
        assert_eq!(template.render(&[message("user", "x")]).unwrap(), "ok");
        let error = template.render(&[message("system", "x")]).unwrap_err();
        assert!(matches!(&error, EngineError::Input { reason } if reason.contains("user first")), "{error}");
    }
}
