//! Logins by name, for protocols whose clients say who they are before they prove it.

use std::sync::Arc;

use ring::digest::{Context, SHA256};
use subtle::ConstantTimeEq;

use super::scram::{Exchange, Verifier};
use super::token::{HASH_BYTES, hash};
use super::{Principal, Principals};
use crate::error::Result;
use crate::tls::Peer;

/// A claim to be the principal of a name. It looks and takes as long where there is none.
#[derive(Debug)]
pub struct Login {
    claimed: Option<Arc<Principal>>,
    hash: [u8; HASH_BYTES],
    verifier: Verifier,
    is_provable: bool,
}

impl Principals {
    /// The claim to be `name`.
    #[must_use]
    pub fn login(&self, name: &str) -> Login {
        let known = self.known.iter().find(|known| known.principal.name == name);
        let verifier = |known: &super::Known| known.principal.scram.as_deref().and_then(Verifier::parse);
        let real = known.and_then(verifier);
        Login {
            claimed: known.map(|known| Arc::clone(&known.principal)),
            hash: known.and_then(|known| known.hash).unwrap_or_default(),
            // A stranger is asked as if he were one of us.
            is_provable: match known {
                Some(_) => real.is_some(),
                None => self.known.iter().all(|known| known.principal.scram.is_some()),
            },
            verifier: real.unwrap_or_else(|| Verifier::of_nobody(&self.secret(), name)),
        }
    }

    /// Bytes that nobody outside knows and that stay the same: what the settings hold.
    fn secret(&self) -> [u8; HASH_BYTES] {
        let mut all = Context::new(&SHA256);
        for known in self.known.iter() {
            all.update(known.hash.as_ref().map_or(&[][..], |hash| hash));
            all.update(known.principal.scram.as_deref().unwrap_or_default().as_bytes());
        }
        let mut secret = [0; HASH_BYTES];
        secret.copy_from_slice(all.finish().as_ref());
        secret
    }
}

impl Login {
    /// Whether the name can be proven without showing the token.
    #[must_use]
    pub fn is_provable(&self) -> bool {
        self.is_provable
    }

    /// Begins a proof of the token; [`Login::proven`] ends it.
    ///
    /// # Errors
    /// `Invalid` for a message that is none.
    pub fn prove(&self, client_first: &[u8]) -> Result<(Exchange, String)> {
        Exchange::begin(self.verifier.clone(), client_first)
    }

    /// The principal and the server's proof, if the client's fits.
    ///
    /// # Errors
    /// `Invalid` for a message that does not belong to the exchange.
    pub fn proven(self, exchange: Exchange, client_final: &[u8]) -> Result<Option<(Arc<Principal>, String)>> {
        Ok(exchange.finish(client_final)?.and_then(|proof| Some((self.claimed?, proof))))
    }

    /// The principal, if this is its token.
    #[must_use]
    pub fn shown(self, token: &str) -> Option<Arc<Principal>> {
        let is_right = bool::from(hash(token.as_bytes()).ct_eq(&self.hash));
        self.claimed.filter(|principal| is_right && principal.token_sha256.is_some())
    }

    /// The principal, if the client's certificate names it.
    #[must_use]
    pub fn certified(&self, peer: &Peer) -> Option<Arc<Principal>> {
        let claimed = self.claimed.as_ref()?;
        let name = claimed.certificate.as_ref()?;
        peer.names().iter().any(|shown| shown == name).then(|| Arc::clone(claimed))
    }
}
