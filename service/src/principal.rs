//! Who calls Tokenwatt, and how they prove it: a bearer token, or a client certificate.
//!
//! ```text
//! request ─► certificate names ─┐
//!         └► token ─► SHA-256 ──┴─► principal ─► role ─► what it may do
//!                                       └─► a session of a browser; a link that shows others one page
//! ```
//!
//! Settings hold the SHA-256 of a token, never the token. A plain hash is right here: tokens are 256 random bits
//! ([`new_token`]), so there is nothing to guess that a slow password hash would protect.

mod attempts;
mod guard;
mod login;
pub mod scram;
mod session;
mod settings;
mod share;
mod token;

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use subtle::ConstantTimeEq;

use crate::clock::{self, SharedClock};
use crate::error::{Error, Kind, Result};
use crate::tls::Peer;

pub use attempts::Attempts;
pub use guard::{require, require_everything};
pub use login::Login;
pub use session::Sessions;
pub use settings::{Principal, Role, validate};
pub use share::{Grant, Shares};
pub use token::{Token, new_token};

/// The principals of a process. Clones share them. Empty: whoever reaches the ports, which are then on loopback only.
#[derive(Clone)]
pub struct Principals {
    known: Arc<[Known]>,
    clock: SharedClock,
}

/// A token that was not taken.
#[derive(Debug)]
pub struct Refused {
    /// Why, for counting and for words of one's own.
    pub why: Refusal,
    /// The same as an answer to a program.
    pub error: Error,
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs to nobody here.
    Unknown,
    /// Its time is over.
    Expired,
    /// Its principal is there for something else.
    Role,
}

#[derive(Debug)]
struct Known {
    principal: Arc<Principal>,
    hash: Option<[u8; token::HASH_BYTES]>,
}

impl Principals {
    /// The principals of valid settings ([`validate`]); their tokens expire by `clock`.
    #[must_use]
    pub fn new(principals: &[Principal], clock: &SharedClock) -> Self {
        let known = principals.iter().map(|principal| Known {
            hash: principal.token_sha256.as_deref().and_then(token::parse_hash),
            principal: Arc::new(principal.clone()),
        });
        Self { known: known.collect(), clock: Arc::clone(clock) }
    }

    /// Whether there are none: nobody has to prove anything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.known.is_empty()
    }

    /// All principals.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Principal>> {
        self.known.iter().map(|known| &known.principal)
    }

    /// Who sends a request that does what `role` may do; `None` if nobody has to prove anything.
    ///
    /// # Errors
    /// `Unauthenticated` without proof, with a wrong one or one that has expired, `Denied` for a principal of another role.
    pub fn identify(&self, role: Role, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Option<Arc<Principal>>> {
        if self.is_open() {
            return Ok(None);
        }
        let principal = self.find(headers, peer)?;
        may(&principal, role)?;
        Ok(Some(principal))
    }

    /// Whose token this is, if it does what `role` may do.
    ///
    /// # Errors
    /// Why it is not taken, with the error of [`Principals::identify`].
    pub fn admit(&self, role: Role, token: &Token) -> std::result::Result<Arc<Principal>, Refused> {
        let refused = |why| move |error| Refused { why, error };
        let principal = self.owner(token).map_err(refused(Refusal::Unknown))?;
        self.check_token(&principal).map_err(refused(Refusal::Expired))?;
        may(&principal, role).map_err(refused(Refusal::Role))?;
        Ok(principal)
    }

    /// The principal of a name that does what `role` may do, for one who has proven it before. None once it has left the settings, or
    /// its token has expired.
    #[must_use]
    pub fn named(&self, name: &str, role: Role) -> Option<Arc<Principal>> {
        let principal = self.iter().find(|principal| principal.name == name && principal.role == role)?;
        self.check_token(principal).ok().map(|()| Arc::clone(principal))
    }

    /// A token decides where one is shown; else the certificate does.
    fn find(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Arc<Principal>> {
        if let Some(token) = Token::of(headers) {
            return self.shown(&token);
        }
        let names = peer.map(Peer::names).unwrap_or_default();
        if names.is_empty() {
            return Err(unknown("no token and no client certificate"));
        }
        let named = |known: &&Known| {
            known.principal.certificate.as_ref().is_some_and(|name| names.iter().any(|shown| shown == name))
        };
        let found = self.known.iter().find(named).map(|known| Arc::clone(&known.principal));
        found.ok_or_else(|| unknown("the client certificate names no principal"))
    }

    fn shown(&self, token: &Token) -> Result<Arc<Principal>> {
        let principal = self.owner(token)?;
        self.check_token(&principal)?;
        Ok(principal)
    }

    fn owner(&self, token: &Token) -> Result<Arc<Principal>> {
        self.by_token(token).ok_or_else(|| unknown("the token belongs to no principal"))
    }

    /// Whether the principal's token, which it has shown or proven, still counts.
    ///
    /// # Errors
    /// `Unauthenticated` once it has expired: says when, and what to do.
    pub fn check_token(&self, principal: &Principal) -> Result<()> {
        let Some(expired) = principal.expired(self.clock.now_us()) else { return Ok(()) };
        let message = format!("the token of `{}` expired at {expired}", principal.name);
        Err(Error::new(Kind::Unauthenticated, message).with_hint(
            "whoever runs this server makes a new one with `tokenwatt token` and puts its hash and a later `expires` into the \
             principal's settings",
        ))
    }

    /// Looks at every principal, so that the time taken does not tell which one came close.
    fn by_token(&self, token: &Token) -> Option<Arc<Principal>> {
        let shown = token.hash();
        let mut found = None;
        for known in self.known.iter() {
            if known.hash.is_some_and(|hash| bool::from(hash.ct_eq(&shown))) {
                found = Some(&known.principal);
            }
        }
        found.map(Arc::clone)
    }
}

impl Default for Principals {
    fn default() -> Self {
        Self::new(&[], &clock::system())
    }
}

impl fmt::Debug for Principals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.iter()).finish()
    }
}

fn may(principal: &Principal, role: Role) -> Result<()> {
    if principal.role == role {
        return Ok(());
    }
    let message = format!("`{}` is a {} and may not {}", principal.name, principal.role.name(), role.verb());
    Err(Error::new(Kind::Denied, message))
}

fn unknown(message: &'static str) -> Error {
    Error::new(Kind::Unauthenticated, message).with_hint(
        "send `authorization: Bearer <token>`; `tokenwatt token` makes a token and the hash for the settings",
    )
}

#[cfg(test)]
mod tests;
