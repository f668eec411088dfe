//! Links that show others one page, read-only, for a while.
//!
//! ```text
//! page, principal, end ─► grant ─► base64url(JSON) . base64url(HMAC-SHA-256)  ─► link
//! ```
//!
//! 1. A link says itself what it grants; only its signature makes it good, and nothing is stored of it.
//! 2. It shows what its principal may see, at most: it ends with the principal, with the principal's token, and with any change of
//!    what the principal may do.
//! 3. The key lies in the state directory, readable for its owner alone. A new one takes its place in time; the old one is kept for
//!    as long as a link of it may last. Deleting the file ends all links at once.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::token::hash;
use super::{Principal, Principals, Role};
use crate::clock::SharedClock;
use crate::error::{Error, Kind, Result};
use crate::secret::random;

/// Name of the file in the state directory.
const FILE: &str = "share-keys";
/// What is signed begins with this, so that no signature means anything else.
const PURPOSE: &[u8] = b"tokenwatt share 1\n";
/// Bytes of a key, as many as the hash has.
const KEY_BYTES: usize = 32;
/// Longest page that is shared, path and query.
const PAGE_MAX: usize = 6_000;
/// Longest link that is looked at.
const LINK_MAX: usize = 12_000;
/// After this long a new key signs.
const ROTATE_US: i64 = 30 * 86_400 * 1_000_000;

/// What a link grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Principal whose eyes the page is seen with.
    pub by: String,
    /// Hash of what that principal might do when it made the link.
    rights: String,
    /// Path and query of the page.
    pub page: String,
    /// When it ends, seconds since 1970-01-01 UTC.
    pub until_s: i64,
}

/// Makes links and reads them. Clones share the keys.
#[derive(Clone)]
pub struct Shares {
    principals: Principals,
    clock: SharedClock,
    lifetime_max: Duration,
    keys: Arc<Keys>,
}

struct Keys {
    path: PathBuf,
    held: Mutex<Held>,
}

struct Held {
    /// Newest last; never empty.
    keys: Vec<Key>,
    /// Which file they are from.
    from: Option<Mark>,
}

impl Held {
    /// Takes in what another dashboard with the same file put there since; whether that is anything.
    fn read_again(&mut self, path: &Path) -> bool {
        let mark = mark(path);
        if mark.is_none() || mark == self.from {
            return false;
        }
        self.from = mark;
        let found = fs::read_to_string(path).ok().and_then(|text| parse(&text)).unwrap_or_default();
        let new: Vec<Key> =
            found.into_iter().filter(|key| self.keys.iter().all(|own| own.bytes != key.bytes)).collect();
        let is_any = !new.is_empty();
        self.keys.extend(new);
        self.keys.sort_by_key(|key| key.made_us);
        is_any
    }
}

/// What tells a file from the one that it took the place of: its instant, which is coarse, its length and its number.
type Mark = (SystemTime, u64, u64);

fn mark(path: &Path) -> Option<Mark> {
    let file = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&file);
    #[cfg(not(unix))]
    let number = 0;
    Some((file.modified().ok()?, file.len(), number))
}

#[derive(Clone)]
struct Key {
    made_us: i64,
    bytes: [u8; KEY_BYTES],
}

impl Shares {
    /// Links that last `lifetime_max` at most, with the keys in the directory `state`; the first is made there if there is none.
    ///
    /// # Errors
    /// `Invalid` if the file cannot be read or written, or holds something else.
    pub fn open(principals: &Principals, clock: &SharedClock, state: &Path, lifetime_max: Duration) -> Result<Self> {
        let path = state.join(FILE);
        let mut held = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or_else(|| {
                Error::invalid(format!("{} holds no keys", path.display()))
                    .with_hint("delete it; links made before then end, and a new key is made")
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::invalid(format!("read {}", path.display())).with_source(error)),
        };
        if held.is_empty() {
            held.push(Key { made_us: clock.now_us(), bytes: random()? });
            store(&path, &held)?;
        }
        let held = Held { keys: held, from: mark(&path) };
        let keys = Arc::new(Keys { path, held: Mutex::new(held) });
        Ok(Self { principals: principals.clone(), clock: Arc::clone(clock), lifetime_max, keys })
    }

    /// The longest that a link may last.
    #[must_use]
    pub fn lifetime_max(&self) -> Duration {
        self.lifetime_max
    }

    /// A link's text: what `by` sees of `page` (path and query), for `lifetime` or as long as links may last.
    ///
    /// # Errors
    /// `TooLarge` for a page that is too long, `Internal` if a new key is due and cannot be made.
    pub fn make(&self, by: &Principal, page: &str, lifetime: Duration) -> Result<(String, Grant)> {
        if page.len() > PAGE_MAX {
            let message = format!("the address of this page has {} bytes; up to {PAGE_MAX} can be shared", page.len());
            return Err(Error::new(Kind::TooLarge, message));
        }
        let lasts_s = i64::try_from(lifetime.min(self.lifetime_max).as_secs()).unwrap_or(i64::MAX);
        let now_us = self.clock.now_us();
        let until_s = now_us.div_euclid(1_000_000).saturating_add(lasts_s);
        let grant = Grant { by: by.name.clone(), rights: rights(by), page: page.to_owned(), until_s };
        let json = serde_json::to_vec(&grant).map_err(|error| Error::internal("write a grant").with_source(error))?;
        let body = URL_SAFE_NO_PAD.encode(json);
        let tag = hmac::sign(&self.signing(now_us)?.hmac(), &signed(&body));
        Ok((format!("{body}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref())), grant))
    }

    /// What a link grants, and who made it.
    ///
    /// # Errors
    /// `NotFound` for one that was not made here, or of whose key nothing is left; `Denied` once it has ended.
    pub fn read(&self, link: &str) -> Result<(Grant, Arc<Principal>)> {
        let grant = self.verified(link).ok_or_else(|| {
            Error::new(Kind::NotFound, "this link was not made here, or is not whole")
                .with_hint("copy all of it, or ask for a new one")
        })?;
        let now_s = self.clock.now_us().div_euclid(1_000_000);
        let lasts_s = i64::try_from(self.lifetime_max.as_secs()).unwrap_or(i64::MAX);
        if grant.until_s <= now_s {
            return Err(ended("this link has ended"));
        }
        if grant.until_s > now_s.saturating_add(lasts_s) {
            return Err(ended("this link was made when links might last longer than now"));
        }
        let Some(principal) = self.principals.named(&grant.by, Role::Reader) else {
            return Err(ended("this link ended with the access of whoever made it"));
        };
        if rights(&principal) != grant.rights {
            return Err(ended("this link ended when the access of whoever made it changed"));
        }
        Ok((grant, principal))
    }

    fn verified(&self, link: &str) -> Option<Grant> {
        if link.len() > LINK_MAX {
            return None;
        }
        let (body, tag) = link.split_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let message = signed(body);
        let fits = |key: &Key| hmac::verify(&key.hmac(), &message, &tag).is_ok();
        let mut held = self.keys.held.lock();
        let is_good = held.keys.iter().any(fits) || held.read_again(&self.keys.path) && held.keys.iter().any(fits);
        drop(held);
        is_good.then(|| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok())?
    }

    /// The key that signs now. Those that no link can stand on any more go when a new one comes.
    fn signing(&self, now_us: i64) -> Result<Key> {
        let mut held = self.keys.held.lock();
        let is_new = |key: &&Key| now_us.saturating_sub(key.made_us) < ROTATE_US;
        if held.keys.last().filter(is_new).is_none() {
            held.read_again(&self.keys.path);
        }
        if let Some(key) = held.keys.last().filter(is_new) {
            return Ok(key.clone());
        }
        let lasts_us = i64::try_from(self.lifetime_max.as_micros()).unwrap_or(i64::MAX);
        let useful = |key: &&Key| now_us.saturating_sub(key.made_us) < ROTATE_US.saturating_add(lasts_us);
        let mut next: Vec<Key> = held.keys.iter().filter(useful).cloned().collect();
        let key = Key { made_us: now_us, bytes: random()? };
        next.push(key.clone());
        store(&self.keys.path, &next)?;
        *held = Held { keys: next, from: mark(&self.keys.path) };
        Ok(key)
    }
}

impl Key {
    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.bytes)
    }
}

fn signed(body: &str) -> Vec<u8> {
    [PURPOSE, body.as_bytes()].concat()
}

fn ended(message: &'static str) -> Error {
    Error::new(Kind::Denied, message).with_hint("ask whoever sent it for a new one, or sign in")
}

/// Whatever decides what a principal may do, and by which token, as one text.
fn rights(principal: &Principal) -> String {
    let Principal { name, role, token_sha256, certificate, tenants, regions, .. } = principal;
    let all = format!(
        "{:?}",
        (name, role.name(), token_sha256, certificate, tenants, regions, principal.sees_infrastructure())
    );
    URL_SAFE_NO_PAD.encode(hash(all.as_bytes()))
}

/// Lines of instant, µs since 1970-01-01 UTC, and key in hex.
fn parse(text: &str) -> Option<Vec<Key>> {
    let line = |line: &str| {
        let (made_us, key) = line.split_once(' ')?;
        let mut bytes = [0; KEY_BYTES];
        hex::decode_to_slice(key, &mut bytes).ok()?;
        Some(Key { made_us: made_us.parse().ok()?, bytes })
    };
    text.lines().filter(|line| !line.is_empty()).map(line).collect()
}

/// Written beside, then put in place: who reads finds all of it or what was there before.
fn store(path: &Path, keys: &[Key]) -> Result<()> {
    let lines: Vec<String> = keys.iter().map(|key| format!("{} {}\n", key.made_us, hex::encode(key.bytes))).collect();
    let beside = path.with_extension("new");
    let written = owners(&beside).and_then(|mut file| {
        file.write_all(lines.concat().as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|error| {
        Error::invalid(format!("write {}", path.display()))
            .with_source(error)
            .with_hint("share links are signed with a key that is kept there")
    })
}

/// A new file that only its owner reads.
fn owners(path: &Path) -> std::io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::tests::{Hand, principal};

    const DAY: Duration = Duration::from_secs(86_400);
    const PAGE: &str = "/latency?region=eu-west-1&from=2026-11-29T12:00:00Z";

    struct Desk {
        at: Arc<Hand>,
        state: tempfile::TempDir,
    }

    impl Desk {
        fn new() -> Self {
            Self { at: Arc::new(Hand::second(1_000)), state: tempfile::tempdir().unwrap() }
        }

        /// The links of a process that starts now with these settings.
        fn shares(&self, readers: &[Principal]) -> Shares {
            let clock: SharedClock = Arc::clone(&self.at) as SharedClock;
            Shares::open(&Principals::new(readers, &clock), &clock, self.state.path(), 30 * DAY).unwrap()
        }
    }

    fn ann() -> Principal {
        principal("ann", Role::Reader, Some("a".repeat(64)))
    }

    fn kind(shares: &Shares, link: &str) -> Kind {
        shares.read(link).unwrap_err().kind()
    }

    #[test]
    fn a_link_shows_its_page_until_it_ends_also_after_a_restart() {
        let desk = Desk::new();
        let (link, made) = desk.shares(&[ann()]).make(&ann(), PAGE, DAY).unwrap();
        assert!(!link.contains('/') && !link.contains('?') && !link.contains('='), "{link}");
        let again = desk.shares(&[ann()]);
        let (grant, by) = again.read(&link).unwrap();
        assert_eq!((grant.page.as_str(), by.name.as_str(), grant.until_s), (PAGE, "ann", 1_000 + 86_400));
        assert_eq!(grant, made);
        desk.at.set(1_000 + 86_400 - 1);
        assert!(again.read(&link).is_ok());
        desk.at.set(1_000 + 86_400);
        assert_eq!(kind(&again, &link), Kind::Denied);
        let (long, _) = again.make(&ann(), PAGE, 400 * DAY).unwrap();
        assert_eq!(again.read(&long).unwrap().0.until_s, 1_000 + 86_400 + 30 * 86_400, "no longer than links may last");
        assert!(again.make(&ann(), &"x".repeat(PAGE_MAX + 1), DAY).is_err());
    }

    #[test]
    fn nothing_of_a_link_can_be_changed() {
        let desk = Desk::new();
        let shares = desk.shares(&[ann()]);
        let (link, grant) = shares.make(&ann(), PAGE, DAY).unwrap();
        let (body, tag) = link.split_once('.').unwrap();
        let forged = Grant { page: "/cost".to_owned(), until_s: i64::MAX, ..grant };
        let forged = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&forged).unwrap());
        for other in
            [format!("{forged}.{tag}"), body.to_owned(), format!("{body}."), format!("{body}.AAAA"), String::new()]
        {
            assert_eq!(kind(&shares, &other), Kind::NotFound, "{other}");
        }
        // Each bit of the signature counts.
        let mut bytes = URL_SAFE_NO_PAD.decode(tag).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(kind(&shares, &format!("{body}.{}", URL_SAFE_NO_PAD.encode(&bytes))), Kind::NotFound);
            bytes[at] ^= 1;
        }
        // Another process has another key.
        assert_eq!(kind(&Desk::new().shares(&[ann()]), &link), Kind::NotFound);
    }

    #[test]
    fn a_link_ends_with_its_principal_its_token_and_any_change_of_its_rights() {
        let desk = Desk::new();
        let (link, _) = desk.shares(&[ann()]).make(&ann(), PAGE, DAY).unwrap();
        let bob = principal("bob", Role::Reader, Some("b".repeat(64)));
        for readers in [
            vec![bob],
            vec![Principal { token_sha256: Some("c".repeat(64)), ..ann() }],
            vec![Principal { tenants: vec!["acme".to_owned()], ..ann() }],
            vec![Principal { infrastructure: Some(false), ..ann() }],
            vec![Principal { role: Role::Writer, ..ann() }],
            vec![Principal { expires: Some(jiff::Timestamp::from_second(999).unwrap()), ..ann() }],
        ] {
            assert_eq!(kind(&desk.shares(&readers), &link), Kind::Denied, "{readers:?}");
        }
        assert!(desk.shares(&[ann()]).read(&link).is_ok());
    }

    /// A new key of one is one for all, and takes none from the others.
    #[test]
    fn dashboards_with_one_file_know_each_others_links() {
        let desk = Desk::new();
        let (one, two) = (desk.shares(&[ann()]), desk.shares(&[ann()]));
        let (early, _) = one.make(&ann(), PAGE, 30 * DAY).unwrap();
        assert!(two.read(&early).is_ok());
        desk.at.set(1_000 + 86_400 * 30);
        let (late, _) = two.make(&ann(), PAGE, DAY).unwrap();
        assert!(one.read(&late).is_ok(), "the key that the other made");
        let (later, _) = one.make(&ann(), PAGE, DAY).unwrap();
        assert!(two.read(&later).is_ok());
        let lines = fs::read_to_string(desk.state.path().join(FILE)).unwrap().lines().count();
        assert_eq!(lines, 2, "one rotation for both");
    }

    #[test]
    fn links_last_no_longer_than_they_may_now() {
        let desk = Desk::new();
        let (link, _) = desk.shares(&[ann()]).make(&ann(), PAGE, 30 * DAY).unwrap();
        let clock: SharedClock = Arc::clone(&desk.at) as SharedClock;
        let strict = Shares::open(&Principals::new(&[ann()], &clock), &clock, desk.state.path(), DAY).unwrap();
        assert_eq!(kind(&strict, &link), Kind::Denied);
        desk.at.set(1_000 + 86_400 * 29);
        assert!(strict.read(&link).is_ok());
    }

    #[test]
    fn keys_rotate_are_kept_for_their_links_and_only_their_owner_reads_them() {
        let desk = Desk::new();
        let shares = desk.shares(&[ann()]);
        let path = desk.state.path().join(FILE);
        let lines = || fs::read_to_string(&path).unwrap().lines().count();
        let (first, _) = shares.make(&ann(), PAGE, 30 * DAY).unwrap();
        assert_eq!(lines(), 1);
        desk.at.set(1_000 + 86_400 * 30 - 1);
        shares.make(&ann(), PAGE, DAY).unwrap();
        assert_eq!(lines(), 1);
        assert!(shares.read(&first).is_ok());
        desk.at.set(1_000 + 86_400 * 30);
        let (second, _) = shares.make(&ann(), PAGE, 30 * DAY).unwrap();
        assert_eq!(lines(), 2);
        desk.at.set(1_000 + 86_400 * 59);
        assert!(desk.shares(&[ann()]).read(&second).is_ok());
        desk.at.set(1_000 + 86_400 * 60);
        shares.make(&ann(), PAGE, DAY).unwrap();
        assert_eq!(lines(), 2, "the first is of no use any more");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(&path, "nonsense").unwrap();
        let clock: SharedClock = Arc::clone(&desk.at) as SharedClock;
        let refused = Shares::open(&Principals::new(&[ann()], &clock), &clock, desk.state.path(), DAY);
        assert!(refused.err().unwrap().hint().unwrap().contains("delete it"));
    }
}
