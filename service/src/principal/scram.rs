//! SCRAM-SHA-256, the server's side (RFC 5802 with the hash of RFC 7677): a password is proven without being sent.
//!
//! ```text
//! client-first ─► nonce, salt, iterations ─► client-final (proof) ─► the server's own proof
//! ```
//!
//! The settings hold a verifier as PostgreSQL writes it. It proves nothing by itself: from it one can check a proof, not make one.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::{hmac, pbkdf2};
use subtle::ConstantTimeEq;

use crate::error::{Error, Result};
use crate::secret::random;

/// Name of the mechanism, in SASL and before a verifier.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// Rounds for a new verifier: RFC 7677's least, and PostgreSQL's default. A token is 256 random bits; more rounds would protect nothing.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4_095);
/// Most rounds of a verifier from elsewhere; the client computes them, at every login.
const ITERATIONS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// What a proof of a password is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored: Key,
    server: Key,
}

impl Verifier {
    /// A verifier of this password, with a salt of its own.
    ///
    /// # Errors
    /// `Internal` if the system has no random numbers.
    pub fn new(password: &str) -> Result<Verifier> {
        Ok(Verifier::salted(password, random::<SALT_BYTES>()?.to_vec(), ITERATIONS))
    }

    fn salted(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Verifier {
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
        let stored = sha256(&mac(&salted, b"Client Key"));
        Verifier { iterations, salt, stored, server: mac(&salted, b"Server Key") }
    }

    /// One that no password fits, for a name that nobody has. It is the same for a name each time, as a real one would be.
    pub(super) fn of_nobody(secret: &[u8], name: &str) -> Verifier {
        let part = |what: &str| mac(secret, format!("{what} of {name}").as_bytes());
        let salt = part("salt").into_iter().take(SALT_BYTES).collect();
        Verifier { iterations: ITERATIONS, salt, stored: part("stored"), server: part("server") }
    }

    /// A verifier as PostgreSQL writes it: `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`, bytes in base64.
    #[must_use]
    pub fn parse(text: &str) -> Option<Verifier> {
        let (rounds, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = rounds.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let iterations = iterations.parse::<NonZeroU32>().ok().filter(|rounds| rounds.get() <= ITERATIONS_MAX)?;
        let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?;
        Some(Verifier { iterations, salt, stored: key(stored)?, server: key(server)? })
    }

    /// The server's proof, if the client's fits.
    fn check(&self, message: &[u8], proof: &Key) -> Option<Key> {
        let signature = mac(&self.stored, message);
        let mut client = *proof;
        client.iter_mut().zip(signature).for_each(|(byte, other)| *byte ^= other);
        bool::from(sha256(&client).ct_eq(&self.stored)).then(|| mac(&self.server, message))
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let (salt, stored, server) = (text(&self.salt), text(&self.stored), text(&self.server));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A login between the server's first message and the client's last.
#[derive(Debug)]
pub struct Exchange {
    verifier: Verifier,
    header: String,
    nonce: String,
    /// What both sides have said so far, as it enters the proofs.
    said: String,
}

impl Exchange {
    /// Answers the client's first message.
    ///
    /// # Errors
    /// `Invalid` if it is none, or asks for channel binding, which is not offered.
    pub fn begin(verifier: Verifier, client_first: &[u8]) -> Result<(Exchange, String)> {
        Exchange::with_nonce(verifier, client_first, &STANDARD.encode(random::<NONCE_BYTES>()?))
    }

    fn with_nonce(verifier: Verifier, client_first: &[u8], nonce: &str) -> Result<(Exchange, String)> {
        let first = text(client_first)?;
        let mut parts = first.splitn(3, ',');
        let (flag, authorize, bare) = (parts.next(), parts.next(), parts.next());
        let (Some("n" | "y"), Some(authorize), Some(bare)) = (flag, authorize, bare) else {
            return Err(malformed("channel binding is not offered, or the first message is none"));
        };
        let theirs = attribute(bare, "r").filter(|nonce| !nonce.is_empty());
        let nonce = format!("{}{nonce}", theirs.ok_or_else(|| malformed("the first message has no nonce"))?);
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let said = format!("{bare},{server_first}");
        let header = format!("{},{authorize},", flag.unwrap_or_default());
        Ok((Exchange { verifier, header, nonce, said }, server_first))
    }

    /// Answers the client's last message: the server's proof, or `None` for a wrong password.
    ///
    /// # Errors
    /// `Invalid` if the message does not belong to this exchange.
    pub fn finish(self, client_final: &[u8]) -> Result<Option<String>> {
        let last = text(client_final)?;
        let (rest, proof) = last.rsplit_once(",p=").ok_or_else(|| malformed("the last message has no proof"))?;
        let is_bound = attribute(rest, "c").is_some_and(|bound| bound == STANDARD.encode(&self.header));
        if !is_bound || attribute(rest, "r") != Some(self.nonce.as_str()) {
            return Err(malformed("the last message belongs to another exchange"));
        }
        let proof = key(proof).ok_or_else(|| malformed("the proof is no SHA-256 in base64"))?;
        let message = format!("{},{rest}", self.said);
        let proven = self.verifier.check(message.as_bytes(), &proof);
        Ok(proven.map(|server| format!("v={}", STANDARD.encode(server))))
    }
}

fn attribute<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn text(message: &[u8]) -> Result<&str> {
    std::str::from_utf8(message).map_err(|_| malformed("a message is not UTF-8"))
}

fn malformed(what: &'static str) -> Error {
    Error::invalid(format!("{MECHANISM}: {what}"))
}

fn key(text: &str) -> Option<Key> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

fn mac(secret: &[u8], message: &[u8]) -> Key {
    let mut tag = [0; KEY_BYTES];
    tag.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref());
    tag
}

fn sha256(bytes: &[u8]) -> Key {
    let mut hash = [0; KEY_BYTES];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange printed in RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc_is_reproduced() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::salted("pencil", salt, ITERATIONS);
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, first) = Exchange::with_nonce(verifier, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", nonce).unwrap();
        assert_eq!(first, format!("r=rOprNGfwEbeRWgbNEkqO{nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let last = format!("c=biws,r=rOprNGfwEbeRWgbNEkqO{nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let proof = exchange.finish(last.as_bytes()).unwrap();
        assert_eq!(proof.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    /// A verifier survives its text; what is none is refused.
    #[test]
    fn verifiers_are_written_and_read() {
        let verifier = Verifier::new("tw_token").unwrap();
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier.clone()));
        assert_eq!(format!("{verifier:?}"), "***");
        assert_ne!(Verifier::new("tw_token").unwrap(), verifier, "each has a salt of its own");
        let good = verifier.to_string();
        for broken in
            ["", "md5abc", &good.replace("4096", "0"), &good.replace("4096", "99999999"), &good[..good.len() - 4]]
        {
            assert_eq!(Verifier::parse(broken), None, "{broken}");
        }
    }

    /// Another nonce, another header, a wrong proof, channel binding: none passes.
    #[test]
    fn what_does_not_belong_is_refused() {
        let nobody = Verifier::of_nobody(b"secret", "name");
        assert_eq!(nobody, Verifier::of_nobody(b"secret", "name"));
        assert_ne!(nobody, Verifier::of_nobody(b"secret", "other"));
        let begin = || Exchange::with_nonce(nobody.clone(), b"n,,n=,r=abc", "def").unwrap().0;
        let proof = STANDARD.encode([7; KEY_BYTES]);
        assert_eq!(begin().finish(format!("c=biws,r=abcdef,p={proof}").as_bytes()).unwrap(), None);
        for last in ["c=biws,r=abcxxx,p=", "c=eSws,r=abcdef,p=", "c=biws,r=abcdef"] {
            assert!(begin().finish(format!("{last}{proof}").as_bytes()).is_err(), "{last}");
        }
        for first in ["p=tls-server-end-point,,n=,r=abc", "n,,n=", "n", "", "n,,n=,r="] {
            assert!(Exchange::begin(nobody.clone(), first.as_bytes()).is_err(), "{first}");
        }
    }
}
