//! Panels whose answers take longer than a page waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use telemetry::contract::{Answering, SqlRequest};
use tokio::sync::Semaphore;

use super::*;

/// The busy fleet, which answers some statements only when they are let go.
#[derive(Default)]
struct Slow {
    /// A part of a statement, and as many permits as are let go.
    held: Vec<(&'static str, Semaphore)>,
    asked: Mutex<Vec<String>>,
    running: AtomicUsize,
}

/// Counts down when a statement has ended, or was cancelled.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl QueryApi for Slow {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        self.asked.lock().unwrap().push(request.sql.clone());
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(&self.running);
        Box::pin(async move {
            let _running = running;
            if let Some((_, gate)) = self.held.iter().find(|(part, _)| request.sql.contains(part)) {
                gate.acquire().await.unwrap().forget();
            }
            Fleet::Busy.sql(request).await
        })
    }
}

impl Slow {
    fn of(parts: &[&'static str]) -> Arc<Self> {
        let held = parts.iter().map(|part| (*part, Semaphore::new(0))).collect();
        Arc::new(Self { held, ..Self::default() })
    }

    fn let_go(&self, part: usize) {
        self.held[part].1.add_permits(1);
    }

    fn pages(self: &Arc<Self>) -> Router {
        router(Arc::clone(self) as Arc<dyn QueryApi>, Options { clock: Arc::new(Noon), ..Options::default() })
    }
}

async fn see(pages: &Router, path: &str) -> String {
    let response = pages.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn page() -> String {
    format!("/request/{TRACE}/{SPAN}?t=1795953600000")
}

/// The number of a page that is sent in part.
fn rest(html: &str) -> Option<&str> {
    html.split_once("data-rest=\"")?.1.split('"').next()
}

const TOKENS: &str = "ORDER BY choice, index";
const COST: &str = "FROM request_minute_cost";

/// A page comes without its slow panels, and each of them as soon as it is there; nothing is asked twice.
#[tokio::test]
async fn a_slow_panel_holds_nothing() {
    let fleet = Slow::of(&[TOKENS, COST]);
    let pages = fleet.pages();
    let first = see(&pages, &page()).await;
    assert!(first.contains("retrieval") && first.contains("61.4"), "the trace and the energy are there: {first}");
    assert!(!first.contains("stall-prefill") && !first.contains("$0.000412"));
    assert_eq!(first.matches("It is on its way").count(), 2, "{first}");
    let number = rest(&first).unwrap().to_owned();
    let next = format!("{}&rest={number}", page());
    assert!(first.contains(&format!("content=\"0;url={}\"", next.replace('&', "&amp;"))), "also without scripts");
    assert_eq!(first.matches("rest=").count(), 2, "its links lead to the page, not to its rest");

    let asked = fleet.asked.lock().unwrap().len();
    let (second, ()) = tokio::join!(see(&pages, &next), async { fleet.let_go(1) });
    assert!(second.contains("$0.000412") && !second.contains("stall-prefill"), "{second}");
    assert_eq!(rest(&second), Some(number.as_str()));
    let (third, ()) = tokio::join!(see(&pages, &next), async { fleet.let_go(0) });
    assert!(third.contains("$0.000412") && third.contains("stall-prefill"), "{third}");
    assert!(rest(&third).is_none() && !third.contains("It is on its way") && !third.contains("http-equiv"), "{third}");
    assert_eq!(fleet.asked.lock().unwrap().len(), asked, "what was answered, or is on its way, is not asked again");
}

/// What all of a page hangs on may be late too; a page that is renewed waits for all.
#[tokio::test]
async fn a_page_whose_first_answer_is_late_comes_whole() {
    let fleet = Slow::of(&["SELECT *\nFROM requests"]);
    let pages = fleet.pages();
    let first = see(&pages, &page()).await;
    assert!(!first.contains("stall-prefill") && first.contains("It is on its way"), "{first}");
    let next = format!("{}&rest={}", page(), rest(&first).unwrap());
    let (second, ()) = tokio::join!(see(&pages, &next), async { fleet.let_go(0) });
    assert!(second.contains("stall-prefill") && rest(&second).is_none(), "{second}");

    let all = format!("{}&rest=all", page());
    let (whole, ()) = tokio::join!(see(&pages, &all), async { fleet.let_go(0) });
    assert!(whole.contains("stall-prefill") && rest(&whole).is_none(), "{whole}");
}

/// A number of another page, or of one that is gone, is none.
#[tokio::test]
async fn a_number_is_of_one_page_alone() {
    let fleet = Slow::of(&[TOKENS]);
    let pages = fleet.pages();
    let first = see(&pages, &page()).await;
    let number = rest(&first).unwrap();
    for other in [format!("/latency?rest={number}"), format!("/request/{}/{SPAN}?rest={number}", "a".repeat(32))] {
        let asked = fleet.asked.lock().unwrap().len();
        see(&pages, &other).await;
        assert!(fleet.asked.lock().unwrap().len() > asked, "{other} is asked for itself");
    }
    let gone = see(&pages, &format!("{}&rest=x", page())).await;
    assert_ne!(rest(&gone), Some(number));
}

/// Whoever goes away before the page is sent leaves nothing running.
#[tokio::test]
async fn a_page_that_nobody_waits_for_is_cancelled() {
    let fleet = Slow::of(&[TOKENS]);
    let pages = fleet.pages();
    let (path, asked) = (page(), || fleet.asked.lock().unwrap().iter().any(|sql| sql.contains(TOKENS)));
    let mut seen = Box::pin(see(&pages, &path));
    while !asked() {
        tokio::select! {
            _ = &mut seen => panic!("the page is sent"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(fleet.running.load(Ordering::SeqCst) > 0);
    drop(seen);
    pages_are_left(fleet.as_ref()).await;
}

/// Waits until no statement runs.
async fn pages_are_left(fleet: &Slow) {
    while fleet.running.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
}
