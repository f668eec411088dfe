//! What clients say: messages of the frontend/backend protocol 3.0, taken apart within their bounds.
//!
//! A library's decoder reads past the end of a message that lies about its lengths, and panics on some; bytes from strangers are
//! read here instead, each look at them checked.

use bytes::{Buf, Bytes};

use super::refusal::Refusal;

/// Most parameters of a statement, formats of a result, or types of a Parse; the protocol's own limit is 65,535.
const LIST_MAX: usize = 4_096;

/// A message after the login.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// Part of a COPY that we never asked for; PostgreSQL passes over them too.
    Copy,
}

/// A statement's parameters.
#[derive(Debug, PartialEq)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) formats: Formats,
    pub(super) parameters: Vec<Option<Bytes>>,
    pub(super) results: Formats,
}

/// A prepared statement or a portal.
#[derive(Debug, PartialEq)]
pub(super) enum Target {
    Statement(String),
    Portal(String),
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

/// The formats of a list: none is text for all, one is for all, else one each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Formats(Vec<Format>);

impl Formats {
    /// Text for all.
    pub(super) fn text() -> Formats {
        Formats(Vec::new())
    }

    /// Binary for all.
    pub(super) fn binary() -> Formats {
        Formats(vec![Format::Binary])
    }

    /// The format of the value at `index`.
    pub(super) fn of(&self, index: usize) -> Format {
        match self.0.as_slice() {
            [] => Format::Text,
            [all] => *all,
            each => each.get(index).copied().unwrap_or(Format::Text),
        }
    }

    /// # Errors
    /// If they are for another number of values.
    pub(super) fn check(&self, values: usize) -> Result<(), Refusal> {
        if self.0.len() > 1 && self.0.len() != values {
            return Err(violation(format!("{} formats for {values} values", self.0.len())));
        }
        Ok(())
    }
}

impl Format {
    pub(super) fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

impl Message {
    /// Takes a message apart.
    ///
    /// # Errors
    /// `08P01` if it is none, or holds less or more than it says.
    pub(super) fn parse(kind: u8, body: Bytes) -> Result<Message, Refusal> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Message::Query(body.text()?),
            b'P' => Message::Parse { name: body.text()?, sql: body.text()?, types: body.list(Body::u32)? },
            b'B' => Message::Bind(body.bind()?),
            b'D' => Message::Describe(body.target()?),
            b'E' => Message::Execute { portal: body.text()?, rows_max: usize::try_from(body.i32()?).unwrap_or(0) },
            b'C' => Message::Close(body.target()?),
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'X' => Message::Terminate,
            b'd' | b'c' | b'f' => return Ok(Message::Copy),
            other => return Err(violation(format!("no message begins with byte {other}"))),
        };
        body.end()?;
        Ok(message)
    }
}

/// What the client answers to a request for its password.
pub(super) fn password(body: Bytes) -> Result<String, Refusal> {
    Body(body).text()
}

/// The mechanism chosen and the first message of SASL.
pub(super) fn sasl_first(body: Bytes) -> Result<(String, Bytes), Refusal> {
    let mut body = Body(body);
    let mechanism = body.text()?;
    let message = body.value()?.ok_or_else(|| violation("the mechanism comes without a message"))?;
    Ok((mechanism, message))
}

/// The parameters of a start-up message: pairs of names and values, ended by an empty name.
pub(super) fn startup(body: Bytes) -> Result<Vec<(String, String)>, Refusal> {
    let mut body = Body(body);
    let mut pairs = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            return Ok(pairs);
        }
        pairs.push((name, body.text()?));
    }
}

/// The rest of a message.
struct Body(Bytes);

impl Body {
    fn take(&mut self, bytes: usize) -> Result<Bytes, Refusal> {
        if bytes > self.0.len() {
            return Err(violation("a message ends too early"));
        }
        Ok(self.0.split_to(bytes))
    }

    /// Text up to the next zero byte.
    fn text(&mut self) -> Result<String, Refusal> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(|| violation("a text has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        String::from_utf8(text.into()).map_err(|_| Refusal::error("22021", "a text is not UTF-8"))
    }

    fn u8(&mut self) -> Result<u8, Refusal> {
        Ok(self.take(1)?.get_u8())
    }

    fn u16(&mut self) -> Result<u16, Refusal> {
        Ok(self.take(2)?.get_u16())
    }

    fn u32(&mut self) -> Result<u32, Refusal> {
        Ok(self.take(4)?.get_u32())
    }

    fn i32(&mut self) -> Result<i32, Refusal> {
        Ok(self.take(4)?.get_i32())
    }

    /// Bytes after their length; -1 is NULL.
    fn value(&mut self) -> Result<Option<Bytes>, Refusal> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| violation("a length is negative"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn list<T>(&mut self, mut next: impl FnMut(&mut Body) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let count = usize::from(self.u16()?);
        if count > LIST_MAX {
            return Err(Refusal::error("54000", format!("a list has {count} items, more than {LIST_MAX}")));
        }
        (0..count).map(|_| next(self)).collect()
    }

    fn format(&mut self) -> Result<Format, Refusal> {
        match self.u16()? {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(violation(format!("there is no format {other}"))),
        }
    }

    fn bind(&mut self) -> Result<Bind, Refusal> {
        Ok(Bind {
            portal: self.text()?,
            statement: self.text()?,
            formats: Formats(self.list(Body::format)?),
            parameters: self.list(Body::value)?,
            results: Formats(self.list(Body::format)?),
        })
    }

    fn target(&mut self) -> Result<Target, Refusal> {
        match self.u8()? {
            b'S' => Ok(Target::Statement(self.text()?)),
            b'P' => Ok(Target::Portal(self.text()?)),
            other => Err(violation(format!("there is nothing of kind {other} to describe or close"))),
        }
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(violation("a message goes on after its end")) }
    }
}

fn violation(what: impl Into<String>) -> Refusal {
    Refusal::fatal("08P01", format!("protocol violation: {}", what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: u8, body: &[u8]) -> Result<Message, String> {
        Message::parse(kind, Bytes::copy_from_slice(body)).map_err(|refusal| refusal.code().to_owned())
    }

    #[test]
    fn messages_are_taken_apart() {
        assert_eq!(parse(b'Q', b"SELECT 1\0"), Ok(Message::Query("SELECT 1".to_owned())));
        let bind = parse(b'B', b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0").expect("a bind");
        let Message::Bind(bind) = bind else { panic!("{bind:?}") };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("", "s"));
        assert_eq!(bind.parameters, [Some(Bytes::from_static(b"x")), None]);
        assert_eq!((bind.formats.of(1), bind.results.of(7)), (Format::Binary, Format::Text));
        assert_eq!(parse(b'E', b"p\0\xff\xff\xff\xff"), Ok(Message::Execute { portal: "p".to_owned(), rows_max: 0 }));
        assert_eq!(parse(b'C', b"Sname\0"), Ok(Message::Close(Target::Statement("name".to_owned()))));
    }

    /// Lengths that lie, texts without an end, what follows the end: refused, whatever else is in the buffer.
    #[test]
    fn lies_are_refused() {
        let violation = Err("08P01".to_owned());
        for (kind, body) in [
            (b'Q', &b"no end"[..]),
            (b'Q', b"SELECT 1\0more"),
            (b'P', b"\0SELECT $1\0\0\x09\0\0"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xffx\0\0"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'B', b"\0\0\0\x01\0\x02\0\0\0\0"),
            (b'D', b"Xname\0"),
            (b'E', b"p\0\0"),
            (b'?', b""),
        ] {
            assert_eq!(parse(kind, body), violation, "{kind} {body:?}");
        }
        assert_eq!(parse(b'Q', b"\xff\0"), Err("22021".to_owned()));
        assert_eq!(parse(b'P', b"\0\0\xff\xff"), Err("54000".to_owned()));
        for short in 0..12 {
            let whole = b"\0s\0\0\0\0\x01\0\0\0\x01x\0\0";
            assert_eq!(parse(b'B', &whole[..short]), violation, "{short}");
        }
    }

    #[test]
    fn a_format_each_or_one_for_all() {
        let each = Formats(vec![Format::Text, Format::Binary]);
        assert!(each.check(2).is_ok() && each.check(3).is_err() && Formats::text().check(9).is_ok());
        assert_eq!((each.of(1), each.of(5)), (Format::Binary, Format::Text));
    }
}
