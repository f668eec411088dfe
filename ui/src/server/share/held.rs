//! Pages of links as they were made a moment ago.
//!
//! Whoever was sent a link has proven nothing, and may open it as often as they like. So its statements are asked once a minute at
//! most, however many look: its times stand still, and what comes late is seen with the next minute. Who asks while a page is being
//! made waits for it instead of having it made once more.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use service::clock::SharedClock;
use tokio::sync::Mutex as Turn;

use crate::frame::Theme;

/// A page is made anew after this long.
const LASTS: Duration = Duration::from_secs(60);
/// One that lacks answers is made anew after this long: they may only have been late.
const LASTS_IN_PART: Duration = Duration::from_secs(5);
/// Pages held at most, of some hundred kilobytes each.
const HELD_MOST: usize = 64;

/// What tells pages apart: who shared it, path and query, until when, colours.
pub(super) type Key = (String, String, i64, Theme);

/// A page that was made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) status: StatusCode,
    pub(super) html: Arc<str>,
    /// Whether every panel had its answer.
    pub(super) is_whole: bool,
}

type Place = Arc<Turn<Option<(Duration, Made)>>>;

/// The pages that are held.
pub(in crate::server) struct Held {
    clock: SharedClock,
    places: Mutex<HashMap<Key, Place>>,
}

impl Held {
    pub(in crate::server) fn new(clock: &SharedClock) -> Self {
        Self { clock: Arc::clone(clock), places: Mutex::default() }
    }

    /// The page of a key, by `make` if there is none or it is too old.
    ///
    /// # Cancel safety
    /// Whoever goes away while making it leaves its turn to the next who waits.
    pub(super) async fn page(&self, key: Key, make: impl Future<Output = Made>) -> Made {
        let place = self.place(key);
        let mut held = place.lock().await;
        if let Some((_, made)) = held.as_ref().filter(|held| self.is_fresh(held)) {
            return made.clone();
        }
        let made = make.await;
        *held = Some((self.clock.monotonic(), made.clone()));
        made
    }

    fn is_fresh(&self, (at, made): &(Duration, Made)) -> bool {
        let lasts = if made.is_whole { LASTS } else { LASTS_IN_PART };
        self.clock.monotonic().saturating_sub(*at) < lasts
    }

    fn place(&self, key: Key) -> Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= HELD_MOST && !places.contains_key(&key) {
            // One that is being made is kept, or it would be made twice.
            places.retain(|_, place| match place.try_lock() {
                Ok(held) => held.as_ref().is_some_and(|held| self.is_fresh(held)),
                Err(_) => true,
            });
            if places.len() >= HELD_MOST {
                places.clear();
            }
        }
        Arc::clone(places.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl service::clock::Clock for Hand {
        fn now_ns(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }

    fn key(page: &str) -> Key {
        ("ann".to_owned(), page.to_owned(), 0, Theme::Auto)
    }

    fn made(count: &AtomicUsize, is_whole: bool) -> Made {
        let count = count.fetch_add(1, Ordering::SeqCst) + 1;
        Made { status: StatusCode::OK, html: count.to_string().into(), is_whole }
    }

    #[tokio::test]
    async fn a_page_is_made_once_a_minute_and_one_in_part_sooner() {
        let hand = Arc::new(Hand::default());
        let held = Held::new(&(Arc::clone(&hand) as SharedClock));
        let count = AtomicUsize::new(0);
        let see = async |at, is_whole| {
            hand.0.store(at, Ordering::SeqCst);
            held.page(key("/cost"), async { made(&count, is_whole) }).await.html.to_string()
        };
        for (at, is_whole, shown) in
            [(0, true, "1"), (59, true, "1"), (60, false, "2"), (64, true, "2"), (65, true, "3")]
        {
            assert_eq!(see(at, is_whole).await, shown, "at {at} s");
        }
        assert_eq!(&*held.page(key("/power"), async { made(&count, true) }).await.html, "4", "another page is another");
    }

    #[tokio::test]
    async fn those_who_ask_at_once_wait_for_one_and_who_goes_away_holds_up_nobody() {
        let held = Held::new(&service::clock::system());
        let count = AtomicUsize::new(0);
        let release = tokio::sync::Notify::new();
        let slow = || async {
            release.notified().await;
            made(&count, true)
        };
        {
            // The first of all is polled once, so that it has the turn, and goes away.
            let mut gone = Box::pin(held.page(key("/"), slow()));
            assert!(is_pending(&mut gone).await);
        }
        let (one, two, ()) =
            tokio::join!(held.page(key("/"), slow()), held.page(key("/"), slow()), async { release.notify_one() });
        assert_eq!((&*one.html, &*two.html, count.load(Ordering::SeqCst)), ("1", "1", 1));
    }

    /// Polls a future once; whether it is still pending.
    async fn is_pending<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn only_so_many_are_held() {
        let held = Held::new(&service::clock::system());
        let count = AtomicUsize::new(0);
        for page in 0..3 * HELD_MOST {
            held.page(key(&page.to_string()), async { made(&count, true) }).await;
            assert!(held.places.lock().unwrap().len() <= HELD_MOST);
        }
    }
}
