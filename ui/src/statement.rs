//! The text of a statement as a person reads it: words in colours, and the place where something is wrong.
//!
//! A reader of SQL, no parser: what it does not know stays plain. The editor of the SQL page colours what is typed by a real grammar; both
//! take their colours from the style sheet's tokens.

use std::fmt::Write;

use viz::escape;

/// What a piece of a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Space, commas, operators.
    Plain,
    /// A name of a table or a column, quoted or not.
    Name,
    /// `SELECT`: a word in capitals, as all statements of ours write what is SQL's own.
    Word,
    /// A name before a parenthesis.
    Call,
    Number,
    /// `'text'`.
    Text,
    /// `-- to the end of the line` or `/* between */`.
    Aside,
}

impl Kind {
    /// Its class in the style sheet; what has none is in the colour of the text around it.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Name => None,
            Self::Word => Some("k"),
            Self::Call => Some("f"),
            Self::Number => Some("n"),
            Self::Text => Some("t"),
            Self::Aside => Some("c"),
        }
    }
}

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece<'a> {
    kind: Kind,
    /// Bytes before it.
    at: usize,
    text: &'a str,
}

/// Takes a statement apart; the pieces side by side are the statement.
fn pieces(sql: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(rest) = sql.get(at..).filter(|rest| !rest.is_empty()) {
        let (kind, length) = first(rest);
        let (text, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let kind = match kind {
            Kind::Name | Kind::Word if after.starts_with('(') && !is_before_a_list(text) => Kind::Call,
            kind => kind,
        };
        pieces.push(Piece { kind, at, text });
        at += text.len();
    }
    pieces
}

/// `IN (1, 2)` calls nothing.
fn is_before_a_list(word: &str) -> bool {
    matches!(
        word,
        "IN" | "AS" | "OVER" | "VALUES" | "AND" | "OR" | "NOT" | "FROM" | "USING" | "EXISTS" | "FILTER" | "BY"
    )
}

/// What stands first, and how many bytes of it.
fn first(rest: &str) -> (Kind, usize) {
    let mut letters = rest.chars();
    let (one, two) = (letters.next().unwrap_or(' '), letters.next());
    let until = |end: &str, from: usize| {
        let found = rest.get(from..).and_then(|inner| inner.find(end));
        found.map_or(rest.len(), |at| from + at + end.len())
    };
    let run = |inside: fn(char) -> bool| rest.find(|letter| !inside(letter)).unwrap_or(rest.len());
    match (one, two) {
        ('-', Some('-')) => (Kind::Aside, rest.find('\n').unwrap_or(rest.len())),
        ('/', Some('*')) => (Kind::Aside, until("*/", 2)),
        // A quote that is doubled ends one piece and begins the next of the same kind.
        ('\'', _) => (Kind::Text, until("'", 1)),
        ('"', _) => (Kind::Name, until("\"", 1)),
        ('0'..='9', _) => (Kind::Number, run(|letter| letter.is_ascii_alphanumeric() || letter == '.')),
        (letter, _) if letter.is_alphabetic() || letter == '_' => {
            let length = run(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$'));
            let word = rest.get(..length).unwrap_or(rest);
            let is_word = length > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            (if is_word { Kind::Word } else { Kind::Name }, length)
        }
        (letter, _) => {
            let plain = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '\'' | '"' | '-' | '/' | '_');
            // A dash or a stroke may begin a remark: each is looked at by itself.
            (Kind::Plain, if plain(letter) { run(plain) } else { letter.len_utf8() })
        }
    }
}

/// The statement as markup, in colours.
pub(crate) fn coloured(sql: &str) -> String {
    let pieces = pieces(sql);
    let mut out = String::with_capacity(sql.len() * 2);
    let mut open = None;
    for (index, piece) in pieces.iter().enumerate() {
        let is_space = piece.kind == Kind::Plain && piece.text.trim().is_empty();
        // `GROUP BY` is one stretch of one colour.
        let next = pieces.get(index + 1).and_then(|next| next.kind.class());
        let class = if is_space && open.is_some() && next == open { open } else { piece.kind.class() };
        if class != open {
            if open.is_some() {
                out.push_str("</i>");
            }
            if let Some(class) = class {
                // Writing to a string cannot fail.
                let _ = write!(out, "<i class={class}>");
            }
            open = class;
        }
        out.push_str(&escape(piece.text));
    }
    if open.is_some() {
        out.push_str("</i>");
    }
    out
}

/// A place in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1 on.
    pub(crate) line: usize,
    /// Characters from 1 on.
    pub(crate) column: usize,
    /// Characters of what stands there.
    pub(crate) width: usize,
}

/// Where in its statement a refusal points to: a line and a column if it names them, else the name that it speaks of.
pub(crate) fn place(message: &str, sql: &str) -> Option<Place> {
    let pieces = pieces(sql);
    if let Some((line, column)) = told(message) {
        let width =
            pieces.iter().map(|piece| of(piece, sql)).find(|found| (found.line, found.column) == (line, column));
        return Some(Place { line, column, width: width.map_or(1, |found| found.width) });
    }
    if message.contains("found: EOF") {
        let last = pieces.iter().rev().find(|piece| !piece.text.trim().is_empty() && piece.kind != Kind::Aside)?;
        return Some(of(last, sql));
    }
    let name = named(message)?;
    let is_it = |piece: &&Piece<'_>| {
        matches!(piece.kind, Kind::Name | Kind::Word | Kind::Call)
            && piece.text.trim_matches('"').eq_ignore_ascii_case(name)
    };
    pieces.iter().find(is_it).map(|piece| of(piece, sql))
}

fn of(piece: &Piece<'_>, sql: &str) -> Place {
    let before = sql.get(..piece.at).unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { line: before.matches('\n').count() + 1, column, width: piece.text.chars().count() }
}

/// The parser's "… at Line: 2, Column: 14".
fn told(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (line, column) = (line.parse().ok()?, rest.get(..digits)?.parse().ok()?);
    (line > 0 && column > 0).then_some((line, column))
}

/// The last part of the name that a message of the planner is about.
fn named(message: &str) -> Option<&str> {
    const ABOUT: [&str; 4] =
        ["No field named ", "table '", "Invalid function '", "Ambiguous reference to unqualified field "];
    let rest = ABOUT.iter().find_map(|about| message.split_once(about).map(|(_, rest)| rest))?;
    let part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$' | '.' | '"' | '@');
    let whole = rest.get(..rest.find(|letter| !part(letter)).unwrap_or(rest.len()))?.trim_end_matches('.');
    let last = whole.rsplit('.').next().unwrap_or(whole).trim_matches('"');
    // A table at a version is called by its name alone.
    Some(last.split('@').next().unwrap_or(last)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_side_by_side_are_the_statement() {
        for sql in [
            "SELECT region, count(*) FROM calls -- all\nWHERE x = 'it''s' AND \"Ünï\" > 1.5e3 /* and */ OR a-1/2",
            "'open",
            "\"open",
            "/* open",
            "é☃ 𝒳",
            "",
            "--",
        ] {
            let again: String = pieces(sql).iter().map(|piece| piece.text).collect();
            assert_eq!(again, sql);
            for piece in pieces(sql) {
                assert!(!piece.text.is_empty() && sql[piece.at..].starts_with(piece.text), "{piece:?}");
            }
        }
    }

    #[test]
    fn colours_are_markup_that_nothing_breaks_out_of() {
        assert_eq!(
            coloured("SELECT sum(x) FROM t WHERE a IN ('<b>', 2) GROUP BY a -- so"),
            "<i class=k>SELECT</i> <i class=f>sum</i>(x) <i class=k>FROM</i> t <i class=k>WHERE</i> a <i class=k>IN</i> \
             (<i class=t>&#39;&lt;b&gt;&#39;</i>, <i class=n>2</i>) <i class=k>GROUP BY</i> a <i class=c>-- so</i>"
        );
        assert_eq!(coloured("a'</i><script>"), "a<i class=t>&#39;&lt;/i&gt;&lt;script&gt;</i>");
        assert_eq!(coloured("APPROX(1)"), "<i class=f>APPROX</i>(<i class=n>1</i>)");
    }

    #[test]
    fn a_refusal_points_to_its_place() {
        let sql = "SELECT region\nFROM calls c\nWHERE c.tiem > 'é' AND \"Foo\" = 1";
        let at = |line, column, width| Some(Place { line, column, width });
        for (message, expected) in [
            ("sql parser error: Expected: end, found: tiem at Line: 3, Column: 9", at(3, 9, 4)),
            ("sql parser error: Expected: end, found: > at Line: 3, Column: 99", at(3, 99, 1)),
            ("sql parser error: Expected: an expression, found: EOF", at(3, 32, 1)),
            ("No field named c.tiem. Valid fields are c.time, c.region.", at(3, 9, 4)),
            ("No field named \"Foo\". Did you mean x?", at(3, 24, 5)),
            ("table 'tokenwatt.public.calls' not found", at(2, 6, 5)),
            ("Invalid function 'nope'.", None),
            ("the query was cancelled", None),
            ("Line: 0, Column: 4", None),
            ("Line: x, Column: 4", None),
        ] {
            assert_eq!(place(message, sql), expected, "{message}");
        }
    }
}
