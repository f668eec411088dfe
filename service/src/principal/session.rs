//! Sessions of browsers: what a token is exchanged for, once, at the login.
//!
//! ```text
//! token ─► principal ─► 256 random bits, the browser's cookie ─► SHA-256 of them, kept here ─► principal, until it ends
//! ```
//!
//! 1. An id is made here and nowhere else: what a browser brings to its login is ended, never taken on.
//! 2. A session ends by itself, and with its principal's token.
//! 3. They live in memory: a restart ends all of them, and so does a principal that left the settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::token::{HASH_BYTES, hash};
use super::{Principal, Principals};
use crate::clock::SharedClock;
use crate::error::{Error, Kind, Result};
use crate::secret::{Secret, random};

/// Random bytes of an id.
const RANDOM_BYTES: usize = 32;
/// Sessions of one principal at most; beyond, its oldest ends. It takes nobody else's place.
const HELD_MAX: usize = 64;

/// All sessions of a process. Clones share them.
#[derive(Clone)]
pub struct Sessions {
    principals: Principals,
    clock: SharedClock,
    lifetime: Duration,
    /// By the hash of the id. Bounded by [`HELD_MAX`] times the principals.
    held: Arc<Mutex<HashMap<[u8; HASH_BYTES], Session>>>,
}

struct Session {
    principal: Arc<Principal>,
    began_us: i64,
    ends_us: i64,
}

impl Sessions {
    /// None yet; each will last `lifetime`, by `clock`.
    #[must_use]
    pub fn new(principals: &Principals, clock: &SharedClock, lifetime: Duration) -> Self {
        Self { principals: principals.clone(), clock: Arc::clone(clock), lifetime, held: Arc::default() }
    }

    /// How long a session lasts.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// A new session of a principal that has just proven who it is: its id, 64 hex digits.
    ///
    /// # Errors
    /// `Internal` if the system has no random numbers.
    pub fn begin(&self, principal: &Arc<Principal>) -> Result<Secret> {
        let id = hex::encode(random::<RANDOM_BYTES>()?);
        let now_us = self.clock.now_us();
        let lasts_us = i64::try_from(self.lifetime.as_micros()).unwrap_or(i64::MAX);
        let ends_us = now_us.saturating_add(lasts_us);
        let mut held = self.held.lock();
        held.retain(|_, session| session.ends_us > now_us);
        let own = held.iter().filter(|(_, session)| session.principal.name == principal.name);
        let (count, oldest) = own.fold((0, None), |(count, oldest), (key, session)| {
            let older = (session.began_us, *key);
            (count + 1, Some(oldest.map_or(older, |oldest: (i64, [u8; HASH_BYTES])| oldest.min(older))))
        });
        if let Some((_, oldest)) = oldest.filter(|_| count >= HELD_MAX) {
            held.remove(&oldest);
        }
        held.insert(hash(id.as_bytes()), Session { principal: Arc::clone(principal), began_us: now_us, ends_us });
        Ok(Secret::new(id))
    }

    /// Whose session it is.
    ///
    /// # Errors
    /// `Unauthenticated` for an id that is none, or one that has ended; once the principal's token has expired, too, with the instant.
    pub fn find(&self, id: &str) -> Result<Arc<Principal>> {
        let key = hash(id.as_bytes());
        let now_us = self.clock.now_us();
        let mut held = self.held.lock();
        let Some(session) = held.get(&key) else { return Err(ended()) };
        let principal = Arc::clone(&session.principal);
        let outcome = if session.ends_us <= now_us { Err(ended()) } else { self.principals.check_token(&principal) };
        if outcome.is_err() {
            held.remove(&key);
        }
        outcome.map(|()| principal)
    }

    /// Ends a session; one that is none is left so.
    pub fn end(&self, id: &str) {
        self.held.lock().remove(&hash(id.as_bytes()));
    }

    /// How many there are, those included that have ended and were not looked at since.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.lock().len()
    }
}

fn ended() -> Error {
    Error::new(Kind::Unauthenticated, "the session has ended").with_hint("sign in again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::tests::{Hand, principal};
    use crate::principal::{Role, new_token};

    fn sessions(at: &Arc<Hand>, expires_s: Option<i64>) -> (Sessions, Arc<Principal>) {
        let (_, token) = new_token().unwrap();
        let mut reader = principal("ann", Role::Reader, Some(token));
        reader.expires = expires_s.map(|second| jiff::Timestamp::from_second(second).unwrap());
        let clock: SharedClock = Arc::clone(at) as SharedClock;
        let principals = Principals::new(&[reader], &clock);
        let ann = principals.iter().next().map(Arc::clone).unwrap();
        (Sessions::new(&principals, &clock, Duration::from_secs(60)), ann)
    }

    #[test]
    fn a_session_lasts_until_its_end_and_an_id_that_was_not_made_here_is_none() {
        let at = Arc::new(Hand::second(1_000));
        let (sessions, ann) = sessions(&at, None);
        let (one, two) = (sessions.begin(&ann).unwrap(), sessions.begin(&ann).unwrap());
        assert!(one.expose().len() == 64 && one != two);
        assert_eq!(sessions.find(one.expose()).unwrap().name, "ann");
        assert!(sessions.find(&"0".repeat(64)).is_err() && sessions.find("").is_err());
        sessions.end(one.expose());
        assert_eq!(sessions.find(one.expose()).unwrap_err().kind(), Kind::Unauthenticated);
        assert!(sessions.find(two.expose()).is_ok(), "another one of the same principal goes on");
        at.set(1_060);
        assert!(sessions.find(two.expose()).is_err());
        assert_eq!(sessions.count(), 0, "what has ended is not kept");
    }

    #[test]
    fn a_token_that_expires_ends_its_sessions_and_says_so() {
        let at = Arc::new(Hand::second(1_000));
        let (sessions, ann) = sessions(&at, Some(1_030));
        let id = sessions.begin(&ann).unwrap();
        at.set(1_029);
        assert!(sessions.find(id.expose()).is_ok());
        at.set(1_030);
        let refused = sessions.find(id.expose()).unwrap_err();
        assert!(refused.message().contains("token of `ann` expired at 1970-01-01T00:17:10Z"), "{refused}");
    }

    #[test]
    fn a_principal_has_only_so_many_and_its_oldest_goes() {
        let at = Arc::new(Hand::second(1_000));
        let (sessions, ann) = sessions(&at, None);
        let ids: Vec<Secret> = (0..=i64::try_from(HELD_MAX).unwrap())
            .map(|step| {
                at.set_us(1_000_000_000 + step);
                sessions.begin(&ann).unwrap()
            })
            .collect();
        assert_eq!(sessions.count(), HELD_MAX);
        assert!(sessions.find(ids[0].expose()).is_err() && sessions.find(ids[1].expose()).is_ok());
    }
}
