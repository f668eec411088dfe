use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::json;

use super::*;
use crate::engine::TokenDecoder;

fn chat(extra: serde_json::Value) -> ChatRequest {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(body).unwrap()
}

/// Options that ask for nothing pass, whatever their shape; those that change the answer do not.
#[test]
fn options_that_ask_for_nothing_pass() {
    for harmless in [
        json!({}),
        json!({"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "modalities": ["text"]}),
        json!({"logprobs": false, "top_logprobs": 0, "logit_bias": {}, "presence_penalty": 0, "top_k": -1}),
        json!({"presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1.1, "min_p": 0.05}),
        json!({"logprobs": null, "stop": [], "n": 1, "temperature": 0, "top_p": 1}),
        json!({"functions": [], "function_call": "auto", "guided_json": null, "min_tokens": 0, "store": true}),
    ] {
        let request = chat(harmless.clone());
        assert!(options::check(&request.options, None).is_ok(), "{harmless}");
        assert!(options::check_chat(&request).is_ok(), "{harmless}");
    }
    for asking in [
        json!({"presence_penalty": 2.5}),
        json!({"frequency_penalty": -3}),
        json!({"repetition_penalty": 0}),
        json!({"min_p": 1.5}),
        json!({"logit_bias": {"5": 101}}),
        json!({"logit_bias": {"five": 1}}),
        json!({"logit_bias": {"5": null}}),
        json!({"logit_bias": [1]}),
        json!({"top_p": 0}),
        json!({"n": 9}),
        json!({"stop": ""}),
        json!({"tool_choice": "required"}),
        json!({"modalities": ["text", "audio"]}),
        json!({"functions": [{"name": "f"}]}),
        json!({"guided_json": {"type": "object"}}),
        json!({"structured_outputs": {"regex": "a+"}}),
        json!({"stop_token_ids": [2]}),
        json!({"min_tokens": 5}),
    ] {
        let request = chat(asking.clone());
        let checked = options::check(&request.options, None).and_then(|()| options::check_chat(&request));
        assert!(checked.is_err(), "{asking}");
    }
    assert!(options::check(&chat(json!({})).options, Some(0)).is_err());
}

/// The same for text completions.
#[test]
fn completion_options() {
    let check = |extra: serde_json::Value| {
        let mut body = json!({"model": "m", "prompt": "x"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let request: CompletionRequest = serde_json::from_value(body).unwrap();
        options::check(&request.options, None).and_then(|()| options::check_completion(&request)).is_ok()
    };
    assert!(
        check(json!({"response_format": {"type": "text"}}))
            && !check(json!({"response_format": {"type": "json_object"}}))
    );
    assert!(!check(json!({"grammar": "root ::= \"a\""})));
    assert!(check(json!({"echo": false, "best_of": 1, "suffix": null})));
    assert!(check(json!({"best_of": 3, "n": 3})));
    assert!(!check(json!({"echo": true})) && !check(json!({"best_of": 2})) && !check(json!({"suffix": "y"})));
}

/// Messages become plain text; the newer system role is the old one; empty conversations are none.
#[test]
fn messages_become_text() {
    let request: ChatRequest = serde_json::from_value(json!({"model": "m", "messages": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null},
    ]}))
    .unwrap();
    let plain = options::messages(&request.messages).unwrap();
    let pairs: Vec<_> = plain.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
    assert_eq!(pairs, [("system", "be brief"), ("user", "ab"), ("assistant", "")]);
    assert!(options::messages(&[]).is_err());
}

/// The client's seed is used as it is, also a negative one; 0 is greedy.
#[test]
fn sampling_settings() {
    let options = json!({"seed": -1, "temperature": 0, "top_k": 40, "logit_bias": {"7": -100, "12": 0.5}});
    let sampling = options::sampling(&chat(options).options, None, 5).unwrap();
    assert_eq!((sampling.seed, sampling.temperature, sampling.top_k), (u64::MAX, 0.0, 40));
    let mut bias = sampling.bias.to_vec();
    bias.sort_unstable_by_key(|(token, _)| *token);
    assert_eq!(bias, [(7, -100.0), (12, 0.5)]);
    let free = options::sampling(&chat(json!({})).options, Some(3), 5).unwrap();
    assert_eq!(free, crate::engine::Sampling { seed: 5, likelihoods: Some(3), ..Default::default() });
}

/// A chat asks by a flag and a number, a text completion by a number alone.
#[test]
fn logprobs_are_asked_for_in_two_ways() {
    let asked = |read: fn(&Options) -> Result<Option<u32>, Fault>, extra| read(&chat(extra).options).ok();
    for (extra, expected) in [
        (json!({}), Some(None)),
        (json!({"logprobs": false, "top_logprobs": 0}), Some(None)),
        (json!({"logprobs": true}), Some(Some(0))),
        (json!({"logprobs": true, "top_logprobs": 20}), Some(Some(20))),
        (json!({"logprobs": true, "top_logprobs": 21}), None),
        (json!({"top_logprobs": 2}), None),
        (json!({"logprobs": 2}), None),
    ] {
        assert_eq!(asked(options::chat_logprobs, extra.clone()), expected, "{extra}");
    }
    for (extra, expected) in [
        (json!({"logprobs": null}), Some(None)),
        (json!({"logprobs": 0}), Some(Some(0))),
        (json!({"logprobs": 5}), Some(Some(5))),
        (json!({"logprobs": 21}), None),
        (json!({"logprobs": true}), None),
        (json!({"logprobs": -1}), None),
    ] {
        assert_eq!(asked(options::text_logprobs, extra.clone()), expected, "{extra}");
    }
}

/// A tokeniser of one token per byte that waits until it is let go, and counts the texts it was given.
#[derive(Default)]
struct Slow {
    given: AtomicUsize,
    gate: (Mutex<bool>, Condvar),
    /// Says how long a text is before it is taken apart.
    tells: bool,
}

impl Slow {
    fn given(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }

    fn let_go(&self) {
        *self.gate.0.lock() = true;
        self.gate.1.notify_all();
    }
}

impl Text for Slow {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        self.given.fetch_add(1, Ordering::SeqCst);
        let mut open = self.gate.0.lock();
        while !*open {
            if self.gate.1.wait_for(&mut open, PATIENCE).timed_out() {
                return Err(EngineError::Input { reason: "nobody let the tokeniser go".to_owned() });
            }
        }
        Ok(vec![0; prompt.len()])
    }

    fn tokens_min(&self, prompt: &str) -> usize {
        if self.tells { prompt.len() } else { 0 }
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        Ok(messages.iter().map(|message| message.content.as_str()).collect())
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        unreachable!("nothing is generated")
    }
}

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// An entrance with so many places in front of nobody, and what would go on to the step thread.
fn entrance(text: &Arc<Slow>, places: usize) -> (Arc<Entrance>, Receiver<Job>) {
    let (sender, jobs) = bounded("test.jobs", 64);
    let engine =
        EngineDescription { max_len: 10_000, prompt_max: 10_000, ..crate::proxy::Config::default().describe() };
    let entrance = Entrance {
        engine: EngineDescription { model: "m".to_owned(), ..engine },
        text: Arc::clone(text) as Arc<dyn Text>,
        door: Door::new(sender, places),
        gauges: Arc::default(),
        clock: Arc::new(NodeClock::new(service::Deps::system().clock)),
        fleet_secret: None,
        token_sampling: 0.0,
        long: Arc::new(Semaphore::new(1)),
        closing: CancellationToken::new(),
    };
    (Arc::new(entrance), jobs)
}

fn body(content: &str, extra: serde_json::Value) -> Bytes {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body.to_string().into()
}

async fn until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}

/// While a long text is taken apart, the one thread of the runtime does other work: here, what lets the tokeniser go.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_texts_hold_up_nobody() {
    let text = Arc::new(Slow::default());
    let (entrance, mut jobs) = entrance(&text, 4);
    let long = "ab1!".repeat(2_000);
    let calls = [
        tokio::spawn({
            let (entrance, body) = (Arc::clone(&entrance), body(&long, json!({})));
            async move { entrance.chat(HeaderMap::new(), body).await.map(drop) }
        }),
        tokio::spawn({
            let (entrance, body) = (Arc::clone(&entrance), json!({"model": "m", "prompt": [long, long]}));
            async move { entrance.completion(HeaderMap::new(), body.to_string().into()).await.map(drop) }
        }),
    ];
    let others = tokio::spawn({
        let entrance = Arc::clone(&entrance);
        async move {
            // One has its turn and the other waits for it: each has a hold on the turns.
            until(|| text.given() == 1 && Arc::strong_count(&entrance.long) == 3).await;
            let given = text.given();
            text.let_go();
            given
        }
    });
    assert_eq!(others.await.unwrap(), 1, "one at a time");
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(()));
    }
    assert_eq!(jobs.try_recv().unwrap().prompts[0].len() + jobs.try_recv().unwrap().prompts[0].len(), 16_000);
}

/// A text that cannot fit is refused by its length; none of a request's prompts is taken apart then.
#[tokio::test]
async fn what_cannot_fit_is_not_taken_apart() {
    let text = Arc::new(Slow { tells: true, ..Slow::default() });
    let (entrance, _jobs) = entrance(&text, 8);
    let long = "ab1!".repeat(100_000);
    let texts = json!({"model": "m", "prompt": ["hi", long], "max_tokens": 4}).to_string();
    for answered in [
        entrance.chat(HeaderMap::new(), body(&long, json!({"max_tokens": 4}))).await,
        entrance.completion(HeaderMap::new(), texts.into()).await,
    ] {
        let fault = answered.map(drop).unwrap_err();
        let said = "the model's context holds 10000 tokens, the request needs at least 400000 prompt tokens and 4 output tokens";
        assert_eq!((fault.status().as_u16(), fault.message()), (400, said));
        assert_eq!(fault.into_body().error.code.as_deref(), Some("context_length_exceeded"));
    }
    assert_eq!(text.given(), 0);
}

/// A full node refuses before it takes anything apart: where the first place is missing, and where the places of further choices are.
#[tokio::test]
async fn places_come_first() {
    let text = Arc::new(Slow::default());
    for (places, choices) in [(0, 1), (3, 4)] {
        let (entrance, _jobs) = entrance(&text, places);
        let answered = entrance.chat(HeaderMap::new(), body("hi", json!({"n": choices}))).await;
        assert_eq!(answered.map(drop).unwrap_err().status().as_u16(), 429);
        assert!(entrance.door.places(places as u32).is_ok(), "and keeps none of them");
    }
    assert_eq!(text.given(), 0);
}

/// Whoever goes away while waiting for the tokeniser is not waited for, leaves no job, and gives the place back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn who_goes_away_takes_nothing() {
    let text = Arc::new(Slow::default());
    let (entrance, mut jobs) = entrance(&text, 3);
    let long = "ab1!".repeat(2_000);
    let calls = [1, 2].map(|_| {
        let body = json!({"model": "m", "prompt": [long, long], "n": 1}).to_string();
        let entrance = Arc::clone(&entrance);
        tokio::spawn(async move { entrance.completion(HeaderMap::new(), body.into()).await.map(drop) })
    });
    // Two prompts have two places; the call that waits for its turn has one.
    until(|| text.given() == 1 && entrance.door.places(1).is_err()).await;
    for call in calls {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    text.let_go();
    until(|| entrance.door.places(3).is_ok()).await;
    assert_eq!(text.given(), 1, "neither the second prompt nor the second call");
    assert!(jobs.try_recv().is_err());
}

/// A prompt without any token is called that, and not too long.
#[tokio::test]
async fn empty_prompts() {
    let text = Arc::new(Slow::default());
    text.let_go();
    let (entrance, _jobs) = entrance(&text, 2);
    let answered = entrance.completion(HeaderMap::new(), json!({"model": "m", "prompt": ""}).to_string().into()).await;
    let fault = answered.map(drop).unwrap_err();
    assert_eq!(fault.message(), "the prompt is empty; the model needs at least one token to go on from");
    let error = fault.into_body().error;
    assert_eq!((error.param.as_deref(), error.code), (Some("prompt"), None));
}
