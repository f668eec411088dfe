//! The JSON of a push: `{"streams": [{"stream": {labels}, "values": [["ns", "line", {metadata}]]}]}`, one line at a time.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use service::error::{Error, Result};

use super::{Out, PAIRS_MAX, Stream, broken};

/// Walks a whole push.
pub(super) fn walk(body: &[u8], out: &mut Out<'_>) -> Result<()> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let mut walk = Walk { out, failure: None };
    let walked = deserializer.deserialize_map(Top(&mut walk)).and_then(|()| deserializer.end());
    match (walk.failure, walked) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(broken("the body is no push in JSON", error)),
        (None, Ok(())) => Ok(()),
    }
}

/// The push, and the failure that is no fault of the JSON.
struct Walk<'w, 'o> {
    out: &'w mut Out<'o>,
    failure: Option<Error>,
}

/// A pair of texts in a JSON object.
type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

#[derive(Deserialize)]
struct JsonStream<'a> {
    #[serde(borrow)]
    stream: &'a RawValue,
    #[serde(borrow)]
    values: &'a RawValue,
}

struct Top<'t, 'w, 'o>(&'t mut Walk<'w, 'o>);

impl<'de> Visitor<'de> for Top<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `streams`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "streams" {
                found = true;
                map.next_value_seed(Streams(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if found { Ok(()) } else { Err(A::Error::missing_field("streams")) }
    }
}

struct Streams<'t, 'w, 'o>(&'t mut Walk<'w, 'o>);

impl<'de> DeserializeSeed<'de> for Streams<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Streams<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of streams")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut streams: A) -> std::result::Result<(), A::Error> {
        while let Some(stream) = streams.next_element::<JsonStream<'de>>()? {
            stream.walk(self.0).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

impl JsonStream<'_> {
    fn walk(&self, walk: &mut Walk<'_, '_>) -> std::result::Result<(), serde_json::Error> {
        let labels = serde_json::Deserializer::from_str(self.stream.get()).deserialize_map(Texts)?;
        let mut stream = Stream::new(labels.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
        serde_json::Deserializer::from_str(self.values.get())
            .deserialize_seq(Lines { stream: &mut stream, walk: &mut *walk })?;
        stream.end(walk.out).map_err(|error| walk.stop(error))
    }
}

impl Walk<'_, '_> {
    /// Ends the walk with an error that the JSON is not to blame for.
    fn stop<E: serde::de::Error>(&mut self, error: Error) -> E {
        self.failure = Some(error);
        E::custom("stopped")
    }
}

struct Lines<'t, 's, 'w, 'o> {
    stream: &'t mut Stream<'s>,
    walk: &'t mut Walk<'w, 'o>,
}

impl<'de> Visitor<'de> for Lines<'_, '_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of [\"nanoseconds\", \"line\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> std::result::Result<(), A::Error> {
        while let Some(Line { time_ns, line, metadata }) = lines.next_element()? {
            let pairs = metadata.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
            self.stream
                .line(time_ns, &line, pairs, self.walk.out)
                .map_err(|error| self.walk.stop::<A::Error>(error))?;
        }
        Ok(())
    }
}

struct Line<'a> {
    time_ns: u64,
    line: Cow<'a, str>,
    metadata: Pairs<'a>,
}

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Line<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[\"nanoseconds\", \"line\"]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> std::result::Result<Line<'de>, A::Error> {
                let short = || A::Error::custom("a line is [\"nanoseconds\", \"line\"]");
                let Text(time) = parts.next_element()?.ok_or_else(short)?;
                let time_ns = time.parse().map_err(|_| A::Error::custom("a time is a text of whole nanoseconds"))?;
                let Text(line) = parts.next_element()?.ok_or_else(short)?;
                let metadata = parts.next_element::<Metadata<'de>>()?.map(|found| found.0).unwrap_or_default();
                while parts.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Line { time_ns, line, metadata })
            }
        }

        deserializer.deserialize_seq(Parts)
    }
}

/// Text that borrows where it can.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Metadata<'a>(Pairs<'a>);

impl<'de> Deserialize<'de> for Metadata<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(Texts).map(Self)
    }
}

/// An object whose values are texts.
struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Text(name), Text(value))) = map.next_entry()? {
            if pairs.len() == PAIRS_MAX {
                return Err(A::Error::custom("more than 128 labels or pairs of metadata"));
            }
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}
