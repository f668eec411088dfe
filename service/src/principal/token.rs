//! Tokens: made here, shown in a header, kept as a hash.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use ring::digest::{SHA256, digest};

use crate::error::{Error, Result};
use crate::secret::{Secret, random};

/// Bytes of a SHA-256.
pub(super) const HASH_BYTES: usize = 32;
/// What a token begins with, so that leaked ones can be searched for.
const PREFIX: &str = "tw_";
/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// Names and passwords are padded by some clients and not by others.
const BASIC: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A token as a caller shows it.
#[derive(Debug)]
pub struct Token(Secret);

/// A new token of 256 random bits, and the SHA-256 that the settings hold of it.
///
/// # Errors
/// `Internal` if the system has no random numbers.
pub fn new_token() -> Result<(Secret, String)> {
    let token = Token(Secret::new(format!("{PREFIX}{}", hex::encode(random::<RANDOM_BYTES>()?))));
    let hash = hex::encode(token.hash());
    Ok((token.0, hash))
}

impl Token {
    /// A token that somebody typed.
    #[must_use]
    pub fn typed(text: &str) -> Self {
        Self(Secret::new(text.trim()))
    }

    /// The token in a request's headers: a bearer token, or the password of basic authentication, which is what a browser
    /// asks its user for.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let (scheme, shown) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        let shown = shown.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return (!shown.is_empty()).then(|| Self(Secret::new(shown)));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let pair = String::from_utf8(BASIC.decode(shown).ok()?).ok()?;
        let (_, password) = pair.split_once(':')?;
        Some(Self(Secret::new(password)))
    }

    /// What a caller sends to show this token, for one who showed it in another way. Marked as a secret.
    ///
    /// # Errors
    /// `Invalid` for a token that no header can carry.
    pub fn bearer(&self) -> Result<HeaderValue> {
        let value = HeaderValue::try_from(format!("Bearer {}", self.0.expose()));
        let mut value = value.map_err(|_| Error::invalid("a token is made of visible ASCII characters"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    pub(super) fn hash(&self) -> [u8; HASH_BYTES] {
        hash(self.0.expose().as_bytes())
    }
}

pub(super) fn hash(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// A hash as the settings spell it: 64 hex digits.
pub(super) fn parse_hash(text: &str) -> Option<[u8; HASH_BYTES]> {
    let mut hash = [0; HASH_BYTES];
    hex::decode_to_slice(text, &mut hash).ok().map(|()| hash)
}
