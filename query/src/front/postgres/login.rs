//! From the first packet of a connection to a reader who has proven who they are.
//!
//! ```text
//! packet ─► TLS asked for? ─► start-up ─► certificate | SCRAM-SHA-256 | token ─► parameters, a key to cancel with ─► ready
//!        └► cancel request
//! ```
//!
//! Where TLS is set up, nothing but the request for it (and requests to cancel, which carry a secret and nothing else) is taken in
//! plain text. The request's packet is read to its last byte and no further, so that nothing sent before the handshake is taken for
//! something said under it.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::{
    PgWireBackendMessage,
    response::{ReadyForQuery, TransactionStatus},
    startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey},
};
use service::{
    Deps,
    principal::{Login, Principal, Role, scram},
    tls::{Peer, Stream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    cancel::Cancels,
    frontend,
    refusal::Refusal,
    wire::{End, LOGIN_BYTES_MAX, Wire},
};
use crate::{reader::Reader, session::CATALOG};

/// First words of packets that have no kind: what is asked for instead of a start-up.
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// Protocol 3.0; newer minor versions are told that this is what we speak.
const PROTOCOL: u32 = 3 << 16;
/// Packets before a start-up: one request for each way to encrypt, and the start-up itself.
const PACKETS_MAX: usize = 3;
/// Version of PostgreSQL whose catalog and protocol we speak: that of the catalog library's tables.
pub(super) const SERVER_VERSION: &str = "16.6";

/// What became of a connection's beginning.
pub(super) enum Begun {
    /// It started up, with these parameters.
    Wire(Wire, Peer, Vec<(String, String)>),
    /// It cannot be served.
    Refused(Wire, Refusal),
    /// It asked to cancel another's query, and is done.
    Cancelled,
}

/// Somebody who has proven who they are.
pub(super) struct Proven {
    pub(super) reader: Reader,
    /// Whose token the proof was, which may expire while they are connected.
    pub(super) token_of: Option<Arc<Principal>>,
}

/// Reads packets until the client has said what it wants.
///
/// # Errors
/// If it left, or what it sent is no packet.
pub(super) async fn begin(mut socket: TcpStream, deps: &Deps, cancels: &Cancels) -> Result<Begun, End> {
    for _ in 0..PACKETS_MAX {
        let (code, body) = packet(&mut socket).await?;
        match code {
            SSL_REQUEST if deps.tls.is_secure() => {
                socket.write_all(b"S").await?;
                return secure(socket, deps, cancels).await;
            }
            SSL_REQUEST | GSS_REQUEST => socket.write_all(b"N").await?,
            CANCEL_REQUEST => return Ok(cancelled(body, cancels)),
            _ if deps.tls.is_secure() => {
                let refusal = Refusal::fatal("28000", "this server takes connections under TLS only")
                    .with_hint("connect with sslmode=verify-full, or at least sslmode=require");
                return Ok(Begun::Refused(Wire::new(Stream::Plain(socket), deps.limits), refusal));
            }
            version => {
                let nobody = Peer::named(std::iter::empty());
                return started(Wire::new(Stream::Plain(socket), deps.limits), nobody, version, body);
            }
        }
    }
    Err(End::Left)
}

async fn secure(socket: TcpStream, deps: &Deps, cancels: &Cancels) -> Result<Begun, End> {
    let (mut stream, peer) = deps.tls.accept(socket).await.map_err(|_| End::Left)?;
    match packet(&mut stream).await? {
        (CANCEL_REQUEST, body) => Ok(cancelled(body, cancels)),
        (version, body) => started(Wire::new(stream, deps.limits), peer, version, body),
    }
}

fn cancelled(mut body: Bytes, cancels: &Cancels) -> Begun {
    if body.len() >= 4 {
        let process = body.get_i32();
        cancels.request(process, &body);
    }
    Begun::Cancelled
}

/// A packet without a kind, its first word and the rest. Not a byte more is read.
async fn packet(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<(u32, Bytes), End> {
    let length = stream.read_u32().await?;
    let rest = usize::try_from(length).ok().and_then(|length| length.checked_sub(8));
    let Some(rest) = rest.filter(|rest| *rest <= LOGIN_BYTES_MAX) else { return Err(End::Left) };
    let code = stream.read_u32().await?;
    let mut body = BytesMut::zeroed(rest);
    stream.read_exact(&mut body).await?;
    Ok((code, body.freeze()))
}

/// A start-up, if its protocol is ours.
fn started(mut wire: Wire, peer: Peer, version: u32, body: Bytes) -> Result<Begun, End> {
    if version >> 16 != PROTOCOL >> 16 {
        let message = format!("protocol {}.{} is not spoken here", version >> 16, version & 0xffff);
        return Ok(Begun::Refused(wire, Refusal::fatal("0A000", message).with_hint("PostgreSQL's protocol 3.0 is")));
    }
    let parameters = match frontend::startup(body) {
        Ok(parameters) => parameters,
        Err(refusal) => return Ok(Begun::Refused(wire, refusal)),
    };
    let (options, parameters) = parameters.into_iter().partition::<Vec<_>, _>(|(name, _)| name.starts_with("_pq_."));
    if version != PROTOCOL || !options.is_empty() {
        let unknown = options.into_iter().map(|(name, _)| name).collect();
        let ours = NegotiateProtocolVersion::new(PROTOCOL as i32, unknown);
        wire.gather(&PgWireBackendMessage::NegotiateProtocolVersion(ours))?;
    }
    Ok(Begun::Wire(wire, peer, parameters))
}

/// Has the client prove who it is.
///
/// # Errors
/// If it cannot, or what it says is no answer.
pub(super) async fn prove(
    wire: &mut Wire,
    deps: &Deps,
    peer: &Peer,
    parameters: &[(String, String)],
) -> Result<Proven, End> {
    let value = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let user = value("user").filter(|user| !user.is_empty());
    let Some(user) = user else { return Err(End::Refused(Refusal::fatal("28000", "the start-up names no user"))) };
    if value("replication").is_some_and(|wanted| !matches!(wanted, "false" | "off" | "no" | "0")) {
        return Err(End::Refused(Refusal::fatal("0A000", "there is no replication here")));
    }
    let (principal, token_of) =
        if deps.principals.is_open() { (None, None) } else { principal(wire, deps, peer, user).await? };
    // Not before the proof: strangers learn nothing.
    let database = value("database").filter(|name| !name.is_empty()).unwrap_or(user);
    if ![CATALOG, "postgres", user].contains(&database) {
        let refusal = Refusal::fatal("3D000", format!("database \"{database}\" does not exist"));
        return Err(End::Refused(refusal.with_hint(format!("the database is called {CATALOG}"))));
    }
    Ok(Proven { reader: Reader::from(principal.as_ref()).through("postgresql"), token_of })
}

/// The principal, and again if its token was the proof.
type Known = (Option<Arc<Principal>>, Option<Arc<Principal>>);

async fn principal(wire: &mut Wire, deps: &Deps, peer: &Peer, user: &str) -> Result<Known, End> {
    let login = deps.principals.login(user);
    let (certified, token_of) = if let Some(principal) = login.certified(peer) {
        (Some(principal), None)
    } else if login.is_provable() || !deps.tls.is_secure() {
        (None, by_proof(wire, login).await?)
    } else {
        (None, by_token(wire, login).await?)
    };
    let proven = certified.or_else(|| token_of.clone()).ok_or_else(|| End::Refused(Refusal::login(user)))?;
    if proven.role != Role::Reader {
        return Err(End::Refused(Refusal::fatal("28000", format!("`{user}` is no reader"))));
    }
    check_token(deps, token_of.as_ref())?;
    Ok((Some(proven), token_of))
}

/// # Errors
/// `28000` once the token has expired.
pub(super) fn check_token(deps: &Deps, token_of: Option<&Arc<Principal>>) -> Result<(), End> {
    let checked = token_of.map_or(Ok(()), |principal| deps.principals.check_token(principal));
    checked.map_err(|expired| {
        let refusal = Refusal::fatal("28000", expired.message());
        End::Refused(refusal.with_hint(expired.hint().unwrap_or_default()))
    })
}

async fn by_proof(wire: &mut Wire, login: Login) -> Result<Option<Arc<Principal>>, End> {
    let authentication = PgWireBackendMessage::Authentication;
    let mechanisms = vec![scram::MECHANISM.to_owned()];
    wire.gather(&authentication(Authentication::SASL(mechanisms)))?;
    wire.send().await?;
    let (mechanism, first) = frontend::sasl_first(answer(wire).await?).map_err(End::Refused)?;
    if mechanism != scram::MECHANISM {
        return Err(End::Refused(Refusal::fatal("08P01", format!("mechanism {mechanism} is not offered"))));
    }
    let malformed = |error: service::Error| End::Refused(Refusal::fatal("08P01", error.to_string()));
    let (exchange, ours) = login.prove(&first).map_err(malformed)?;
    wire.gather(&authentication(Authentication::SASLContinue(ours.into())))?;
    wire.send().await?;
    let last = answer(wire).await?;
    let Some((principal, proof)) = login.proven(exchange, &last).map_err(malformed)? else { return Ok(None) };
    wire.gather(&authentication(Authentication::SASLFinal(proof.into())))?;
    Ok(Some(principal))
}

/// Only under TLS: the token itself is sent.
async fn by_token(wire: &mut Wire, login: Login) -> Result<Option<Arc<Principal>>, End> {
    wire.gather(&PgWireBackendMessage::Authentication(Authentication::CleartextPassword))?;
    wire.send().await?;
    let token = frontend::password(answer(wire).await?).map_err(End::Refused)?;
    Ok(login.shown(&token))
}

async fn answer(wire: &mut Wire) -> Result<Bytes, End> {
    match wire.message().await? {
        (b'p', body) => Ok(body),
        _ => Err(End::Refused(Refusal::fatal("08P01", "something else came instead of a proof"))),
    }
}

/// Says that the client is in, what it may count on, and how to cancel.
pub(super) async fn welcome(
    wire: &mut Wire,
    reader: &Reader,
    application: &str,
    (process, secret): (i32, i32),
) -> Result<(), End> {
    wire.gather(&PgWireBackendMessage::Authentication(Authentication::Ok))?;
    let told = [
        ("server_version", SERVER_VERSION),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("application_name", application),
        ("session_authorization", reader.name()),
        ("is_superuser", "off"),
        ("default_transaction_read_only", "on"),
        ("in_hot_standby", "off"),
        ("DateStyle", "ISO, YMD"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
    ];
    for (name, value) in told {
        wire.gather(&PgWireBackendMessage::ParameterStatus(ParameterStatus::new(name.to_owned(), value.to_owned())))?;
    }
    let key = BackendKeyData::new(process, SecretKey::I32(secret));
    wire.gather(&PgWireBackendMessage::BackendKeyData(key))?;
    wire.gather(&PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle)))?;
    wire.trust();
    wire.send().await
}
