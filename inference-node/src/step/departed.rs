//! Calls that are cut off: a client that goes away during a step, whose slot belongs to somebody else in the next one, and a step that
//! fails, whose time is paid by those in it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use service::channel::{Receiver, bounded};
use service::metrics::Registry;
use tokio::sync::Semaphore;

use super::{Driver, NodeClock, Parts, Tally, Timeline};
use crate::engine::{
    ChatMessage, Engine, EngineDescription, EngineError, NewToken, Sampling, SeqId, SequenceInput, StepResult,
    StepTime, Text, TokenDecoder,
};
use crate::queue::{Asked, Call, Event, Gauges, Job};
use crate::record::{CallRecord, Lost, Outcome, Record, Recorder};
use crate::schedule::{Config, Policy, Scheduler, StepPlan};

/// What the engine was told, in order.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Step(Vec<u64>),
    Closed(u64),
}

/// What happens in the third step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Third {
    /// Nothing, or the first client goes away.
    Whole,
    Fails,
    /// The first sequence fails, and no other.
    FailsForOne,
}

/// An engine that computes nothing, and in whose third step something happens.
struct Watched {
    about: EngineDescription,
    told: Arc<Mutex<Vec<Told>>>,
    steps: u32,
    client: Option<Receiver<Event>>,
    third: Third,
}

impl Engine for Watched {
    fn describe(&self) -> &EngineDescription {
        &self.about
    }

    fn text(&self) -> Arc<dyn Text> {
        Arc::new(Letters)
    }

    fn open(&mut self, _seq: SeqId, _input: SequenceInput) -> Result<(), EngineError> {
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<StepResult, EngineError> {
        self.steps += 1;
        if self.steps == 3 {
            self.client = None;
        }
        if self.steps == 3 && self.third == Third::Fails {
            std::thread::sleep(FAILED_STEP);
            return Err(EngineError::Step { reason: "a number was none".to_owned() });
        }
        self.told.lock().push(Told::Step(plan.work.iter().map(|work| work.seq.0).collect()));
        let token = |seq| NewToken { seq, token: u32::from('x'), end: false, likelihoods: None };
        let fails = |seq| self.steps == 3 && self.third == Third::FailsForOne && seq == SeqId(0);
        let yielding = plan.work.iter().filter(|work| work.yields);
        let (failed, whole): (Vec<_>, Vec<_>) = yielding.partition(|work| fails(work.seq));
        Ok(StepResult {
            tokens: whole.into_iter().map(|work| token(work.seq)).collect(),
            failed: failed.into_iter().map(|work| (work.seq, "its numbers overflowed".to_owned())).collect(),
            time: StepTime::Measured { device: Duration::from_micros(1), load: None },
            weights: vec![1; plan.work.len()],
            padding_weight: 0,
        })
    }

    fn close(&mut self, seq: SeqId) {
        self.told.lock().push(Told::Closed(seq.0));
    }
}

/// How long the step takes that fails; the others take a microsecond each.
const FAILED_STEP: Duration = Duration::from_millis(2);

struct Letters;

impl Text for Letters {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        Ok(prompt.chars().map(u32::from).collect())
    }

    fn chat_prompt(&self, _messages: &[ChatMessage]) -> Result<String, EngineError> {
        Ok(String::new())
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        Box::new(Letters)
    }
}

impl TokenDecoder for Letters {
    fn push(&mut self, token: u32, text: &mut String) {
        text.extend(char::from_u32(token));
    }

    fn finish(&mut self, _text: &mut String) {}
}

fn about() -> EngineDescription {
    EngineDescription {
        engine: "watched".to_owned(),
        model: "m".to_owned(),
        quantization: None,
        tensor_parallel: None,
        accelerator: None,
        chips: None,
        slots: 1,
        max_len: 128,
        prompt_max: 128,
        policy: Policy::NeuronSlots,
        prefix_cache: false,
        calibration_error: None,
        likelihoods: false,
        simulated: None,
    }
}

fn job(output_max: u32) -> (Job, Receiver<Event>) {
    let call = Call {
        trace_id: 1,
        span_id: 1,
        parent_span_id: None,
        arrival_ns: 0,
        id: "c".to_owned(),
        operation: "text_completion",
        stream: true,
        model: "m".into(),
        tenant: None,
        priority: 0,
        deadline_ns: None,
        input_tokens: 2,
        output_max,
        asked: Asked::default(),
        sampling: Sampling::default(),
        stops: Arc::new([]),
        sampled: true,
    };
    let (events, received) = bounded("test.events", 128);
    let places = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    (Job { call: Arc::new(call), prompts: vec![[1, 2].as_slice().into()], events, _places: places }, received)
}

/// Runs an engine with so many slots over these jobs to their end; the calls' records, and the busy time of the last sample, in
/// microseconds.
async fn run(engine: Watched, slots: u32, all: Vec<Job>) -> (Vec<CallRecord>, u64) {
    let clock = Arc::new(NodeClock::new(service::Deps::system().clock));
    let (records, mut kept) = bounded("test.records", 1_000);
    let driver = Driver::new(Parts {
        engine: Box::new(engine),
        scheduler: Scheduler::new(Config::default(), slots, 128),
        timeline: Timeline::new(clock),
        tally: Tally::new(&Registry::new(), &about()),
        step_sampling: 0.0,
        meter: None,
        recorder: Recorder::new(records, Lost::new(&Registry::new())),
        gauges: Arc::new(Gauges::default()),
        component: service::health::Health::new().component("node"),
    });
    let (jobs, taken) = bounded("test.jobs", 2);
    for job in all {
        jobs.try_send(job).unwrap_or_else(|_| panic!("no room"));
    }
    drop(jobs);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || driver.run(taken, &runtime)).await.unwrap().unwrap();
    let (mut calls, mut busy_us) = (Vec::new(), 0);
    while let Ok(record) = kept.try_recv() {
        match record {
            Record::Call(call) => calls.push(*call),
            Record::Sample(taken) => busy_us = taken.now.busy_us,
            _ => {}
        }
    }
    (calls, busy_us)
}

/// The first call is closed before the fourth step, and the second one has that step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slot_of_a_departed_client_is_free_for_the_next_step() {
    let (first, client) = job(100);
    let (second, _listening) = job(2);
    let told = Arc::new(Mutex::new(Vec::new()));
    let engine =
        Watched { about: about(), told: Arc::clone(&told), steps: 0, client: Some(client), third: Third::Whole };
    run(engine, 1, vec![first, second]).await;
    let step = |seq| Told::Step(vec![seq]);
    assert_eq!(*told.lock(), [step(0), step(0), step(0), Told::Closed(0), step(1), step(1), Told::Closed(1)]);
}

/// The time of a step that fails is on the call that was in it and on nobody else, and in the engine's busy time: nothing of it is
/// lost, though no token came of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_failed_step_is_paid_by_those_in_it() {
    let (first, _hears) = job(100);
    let (second, _listening) = job(2);
    let engine = Watched { about: about(), told: Arc::default(), steps: 0, client: None, third: Third::Fails };
    let (calls, busy_us) = run(engine, 1, vec![first, second]).await;
    let [failed, whole] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(
        (&failed.outcome, failed.output_tokens),
        (&Outcome::Failed("step failed: a number was none".to_owned()), 2)
    );
    assert_eq!((&whole.outcome, whole.output_tokens), (&Outcome::Complete, 2));
    let paid = |call: &CallRecord| call.device_us_prefill + call.device_us_decode;
    assert_eq!(paid(whole), 2, "two steps of a microsecond");
    assert!(paid(failed) >= 2 + FAILED_STEP.as_micros() as u64, "{}", paid(failed));
    assert_eq!(paid(failed) + paid(whole), busy_us);
}

/// A sequence that fails in a step takes no other with it: it pays for its share and its client hears why, and the one beside it has
/// all its tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_fails_alone() {
    let ((first, mut hears), (second, _listening)) = (job(100), job(4));
    let told = Arc::new(Mutex::new(Vec::new()));
    let engine = Watched { about: about(), told: Arc::clone(&told), steps: 0, client: None, third: Third::FailsForOne };
    let (calls, busy_us) = run(engine, 2, vec![first, second]).await;
    let [failed, whole] = &calls[..] else { panic!("{calls:?}") };
    let outcome = Outcome::Failed("its numbers overflowed".to_owned());
    assert_eq!((&failed.outcome, failed.output_tokens), (&outcome, 1));
    assert_eq!((&whole.outcome, whole.output_tokens), (&Outcome::Complete, 4));
    let paid = |call: &CallRecord| call.device_us_prefill + call.device_us_decode;
    assert_eq!(paid(failed) + paid(whole), busy_us);
    let mut last = None;
    while let Ok(event) = hears.try_recv() {
        last = Some(event);
    }
    assert_eq!(last, Some(Event::Failed("its numbers overflowed".to_owned())));
    let step = |all: &[u64]| Told::Step(all.to_vec());
    assert_eq!(
        *told.lock(),
        [step(&[0]), step(&[1]), step(&[0, 1]), Told::Closed(0), step(&[1]), step(&[1]), Told::Closed(1)]
    );
}
