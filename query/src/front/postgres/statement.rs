//! What a client asks for: a question for the engine, or one of the words that clients of a database say in passing.
//!
//! A text may hold several statements, but only one question: `BEGIN; SELECT …; COMMIT` is how some clients ask one.

use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

use super::refusal::Refusal;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    /// Nothing but blanks and comments.
    Empty,
    /// For the engine, which takes nothing that is not a question.
    Query(String),
    /// A question whose answer is wanted as one stream.
    Copy(Copy),
    Begin,
    Commit,
    Rollback,
    /// A word about transactions, locks or channels that changes nothing here; its tag says so.
    Nothing(&'static str),
    Set(Set),
    Show(String),
    /// `DISCARD ALL`: as after the login.
    Discard,
    /// A prepared statement, or all of them.
    Deallocate(Option<String>),
    /// `DECLARE name CURSOR FOR question`.
    Declare(String, String),
    /// `FETCH n FROM name`; 0 is all.
    Fetch(String, usize),
    /// A cursor, or all of them.
    Close(Option<String>),
}

/// `COPY (question) TO STDOUT`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    pub(super) query: String,
    pub(super) form: Form,
}

/// How COPY writes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Binary,
    Text,
    /// Whether names come first.
    Csv(bool),
}

/// `SET name TO value`; without one, `RESET`; without a name, `RESET ALL`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set {
    pub(super) name: Option<String>,
    pub(super) value: Option<String>,
}

/// Most statements of one text.
const STATEMENTS_MAX: usize = 64;
/// Longest text: its words take a hundred times the room, and nobody has a place yet.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// The statements of a text, in order.
///
/// # Errors
/// `42601` where the text is not SQL; `25006` for a COPY that writes.
pub(super) fn statements(sql: &str) -> Result<Vec<Statement>, Refusal> {
    if sql.len() > TEXT_BYTES_MAX {
        return Err(Refusal::error("54000", format!("the text is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let tokens = tokens(sql)?;
    let semicolons = offsets(sql, &tokens, |token| *token == Token::SemiColon);
    let ends = semicolons.into_iter().chain([sql.len()]);
    let mut from = 0;
    let mut found = Vec::new();
    for (part, end) in tokens.split(|token| token.token == Token::SemiColon).zip(ends) {
        let text = sql.get(from..end).unwrap_or_default().trim();
        from = end + 1;
        let words: Vec<&Token> = part.iter().map(|token| &token.token).filter(|token| !is_blank(token)).collect();
        if !words.is_empty() {
            found.push(statement(text, &words)?);
        }
        if found.len() > STATEMENTS_MAX {
            return Err(Refusal::error("54000", format!("there are more than {STATEMENTS_MAX} statements")));
        }
    }
    if found.is_empty() {
        found.push(Statement::Empty);
    }
    let questions = found.iter().filter(|statement| statement.asks()).count();
    if questions > 1 {
        let refusal = Refusal::error("42601", format!("one question at a time: there are {questions}"));
        return Err(refusal.with_hint("send each by itself"));
    }
    Ok(found)
}

impl Statement {
    fn asks(&self) -> bool {
        matches!(self, Statement::Query(_) | Statement::Copy(_) | Statement::Declare(..))
    }
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// The words of a text.
///
/// # Errors
/// `42601` where it is not SQL.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, Refusal> {
    Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| Refusal::error("42601", error.to_string()))
}

/// Where in the text those tokens begin.
pub(super) fn offsets(sql: &str, tokens: &[TokenWithSpan], wanted: impl Fn(&Token) -> bool) -> Vec<usize> {
    let mut starts = tokens.iter().filter(|token| wanted(&token.token)).map(|token| token.span.start).peekable();
    let (mut line, mut column) = (1, 1);
    let mut found = Vec::new();
    for (offset, character) in sql.char_indices() {
        if starts.next_if_eq(&Location::new(line, column)).is_some() {
            found.push(offset);
        }
        (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    found
}

fn keyword(token: Option<&&Token>) -> Keyword {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// A word in capitals; empty for what is none.
fn spelled(token: Option<&&Token>) -> String {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    }
}

/// What begins a statement that writes. The engine refuses them too, but some only after it has found another fault.
const WRITING: [&str; 12] = [
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "VACUUM",
    "COMMENT",
];

/// # Errors
/// `25006` for what writes, explained or not.
fn check_reads(words: &[&Token]) -> Result<(), Refusal> {
    let passing = ["EXPLAIN", "ANALYZE", "VERBOSE", ""];
    let mut spelled = words.iter().map(|word| spelled(Some(word)));
    match spelled.find(|word| !passing.contains(&word.as_str())) {
        Some(word) if WRITING.contains(&word.as_str()) => Err(Refusal::read_only(&word)),
        _ => Ok(()),
    }
}

fn statement(text: &str, words: &[&Token]) -> Result<Statement, Refusal> {
    check_reads(words)?;
    let second = spelled(words.get(1));
    Ok(match spelled(words.first()).as_str() {
        "BEGIN" => begin(words)?,
        "START" if second == "TRANSACTION" => begin(words)?,
        "COMMIT" | "END" => Statement::Commit,
        "ROLLBACK" | "ABORT" if words.iter().any(|word| spelled(Some(word)) == "TO") => Statement::Nothing("ROLLBACK"),
        "ROLLBACK" | "ABORT" => Statement::Rollback,
        "SAVEPOINT" => Statement::Nothing("SAVEPOINT"),
        "RELEASE" => Statement::Nothing("RELEASE"),
        "UNLISTEN" => Statement::Nothing("UNLISTEN"),
        "SET" => set(words)?,
        "RESET" if second == "ALL" => Statement::Set(Set { name: None, value: None }),
        "RESET" => Statement::Set(Set { name: Some(name(&words[1..])?), value: None }),
        "SHOW" if !is_question(&second) => Statement::Show(name(&words[1..])?),
        "DISCARD" => Statement::Discard,
        "DEALLOCATE" => {
            let rest = if second == "PREPARE" { &words[2..] } else { &words[1..] };
            Statement::Deallocate(named(rest)?)
        }
        "DECLARE" => declare(text, words)?,
        "FETCH" => fetch(words)?,
        "CLOSE" => Statement::Close(named(&words[1..])?),
        "COPY" => Statement::Copy(copy(text, words)?),
        _ => Statement::Query(text.to_owned()),
    })
}

/// What the engine answers to SHOW by itself.
fn is_question(word: &str) -> bool {
    matches!(word, "TABLES" | "COLUMNS" | "FUNCTIONS" | "DATABASES" | "SCHEMAS")
}

fn begin(words: &[&Token]) -> Result<Statement, Refusal> {
    let writes = words.windows(2).any(|pair| spelled(pair.first()) == "READ" && spelled(pair.last()) == "WRITE");
    if writes { Err(Refusal::read_only("a read-write transaction")) } else { Ok(Statement::Begin) }
}

/// `ALL` is none in particular.
fn named(words: &[&Token]) -> Result<Option<String>, Refusal> {
    if keyword(words.first()) == Keyword::ALL { Ok(None) } else { name(words).map(Some) }
}

/// A name as PostgreSQL folds it; `TIME ZONE` and `TRANSACTION ISOLATION LEVEL` are names of settings, too.
fn name(words: &[&Token]) -> Result<String, Refusal> {
    match words {
        [] => Err(Refusal::error("42601", "a name is missing at the end of the statement")),
        [Token::Word(time), Token::Word(zone)] if is(&time.value, "time") && is(&zone.value, "zone") => {
            Ok("timezone".to_owned())
        }
        [Token::Word(first), rest @ ..] if is(&first.value, "transaction") && !rest.is_empty() => {
            Ok("transaction_isolation".to_owned())
        }
        [Token::Word(word)] if word.quote_style.is_some() => Ok(word.value.clone()),
        words => Ok(words.iter().map(|word| word.to_string()).collect::<String>().to_lowercase()),
    }
}

fn is(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

fn set(words: &[&Token]) -> Result<Statement, Refusal> {
    let rest = match spelled(words.get(1)).as_str() {
        "SESSION" | "LOCAL" => &words[2..],
        _ => &words[1..],
    };
    match (spelled(rest.first()).as_str(), spelled(rest.get(1)).as_str()) {
        // `SET TRANSACTION …`, `SET SESSION CHARACTERISTICS AS TRANSACTION …`: transactions are read-only, and see one state.
        ("TRANSACTION" | "CHARACTERISTICS", _) => {
            begin(rest)?;
            return Ok(Statement::Nothing("SET"));
        }
        ("TIME", "ZONE") => return Ok(setting("timezone".to_owned(), &rest[2..])),
        ("NAMES", _) => return Ok(setting("client_encoding".to_owned(), &rest[1..])),
        _ => {}
    }
    let equals = rest.iter().position(|word| matches!(word, Token::Eq) || spelled(Some(word)) == "TO");
    let Some(at) = equals else {
        return Err(Refusal::error("42601", "SET takes a name, TO or =, and a value"));
    };
    Ok(setting(name(&rest[..at])?, &rest[at + 1..]))
}

fn setting(name: String, value: &[&Token]) -> Statement {
    if let [Token::Word(word)] = value
        && word.quote_style.is_none()
        && is(&word.value, "default")
    {
        return Statement::Set(Set { name: Some(name), value: None });
    }
    let value = value.iter().map(|token| match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
        Token::Word(word) => word.value.clone(),
        other => other.to_string(),
    });
    Statement::Set(Set { name: Some(name), value: Some(value.collect()) })
}

fn declare(text: &str, words: &[&Token]) -> Result<Statement, Refusal> {
    let is_cursor = words.iter().any(|word| spelled(Some(word)) == "CURSOR");
    let starts = offsets(text, &tokens(text)?, |token| spelled(Some(&token)) == "FOR");
    let query = starts.first().and_then(|at| text.get(at + "FOR".len()..)).map(str::trim);
    let query = query.filter(|query| is_cursor && !query.is_empty());
    let query = query.ok_or_else(|| Refusal::error("42601", "DECLARE takes a name, CURSOR FOR and a question"))?;
    Ok(Statement::Declare(name(&words[1..2])?, query.to_owned()))
}

fn fetch(words: &[&Token]) -> Result<Statement, Refusal> {
    let unknown =
        || Refusal::error("0A000", "cursors go forward only").with_hint("FETCH n FROM name, or FETCH ALL FROM name");
    let mut rows = 1;
    let mut last = None;
    for word in &words[1..] {
        match (word, spelled(Some(word)).as_str()) {
            (_, "FORWARD" | "NEXT" | "FROM" | "IN") => {}
            (_, "ALL") => rows = 0,
            (Token::Number(digits, _), _) => rows = digits.parse().ok().filter(|rows| *rows > 0).ok_or_else(unknown)?,
            (Token::Word(_), _) if last.is_none() => last = Some(*word),
            _ => return Err(unknown()),
        }
    }
    Ok(Statement::Fetch(name(last.as_slice())?, rows))
}

fn copy(text: &str, words: &[&Token]) -> Result<Copy, Refusal> {
    let mut depth = 0_usize;
    let to = words.iter().position(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && spelled(Some(token)) == "TO"
    });
    let reads = to.is_some_and(|to| spelled(words.get(to + 1)) == "STDOUT");
    let Some(to) = to.filter(|_| reads) else { return Err(Refusal::read_only("COPY to anything but STDOUT")) };
    let form = form(&words[to + 2..])?;
    let query = match words.get(1) {
        Some(Token::LParen) => inside(text)?,
        _ => table(&words[1..to])?,
    };
    Ok(Copy { query, form })
}

/// What stands between the first parenthesis and the one that closes it.
fn inside(text: &str) -> Result<String, Refusal> {
    let tokens = tokens(text)?;
    let is_parenthesis = |token: &Token| matches!(token, Token::LParen | Token::RParen);
    let places = offsets(text, &tokens, is_parenthesis);
    let kinds = tokens.iter().map(|token| &token.token).filter(|token| is_parenthesis(token));
    let mut depth = 0_usize;
    for (at, kind) in places.iter().zip(kinds) {
        depth = if *kind == Token::LParen { depth + 1 } else { depth.saturating_sub(1) };
        if depth == 0 {
            let query = places.first().and_then(|first| text.get(first + 1..*at));
            return Ok(query.unwrap_or_default().trim().to_owned());
        }
    }
    Err(Refusal::error("42601", "COPY's question has no end"))
}

fn table(words: &[&Token]) -> Result<String, Refusal> {
    let columns = words.iter().position(|word| **word == Token::LParen);
    let (table, columns) = words.split_at(columns.unwrap_or(words.len()));
    let text = |words: &[&Token]| words.iter().map(|word| word.to_string()).collect::<String>();
    match columns {
        [] if !table.is_empty() => Ok(format!("SELECT * FROM {}", text(table))),
        [_, columns @ .., Token::RParen] if !table.is_empty() => {
            Ok(format!("SELECT {} FROM {}", text(columns), text(table)))
        }
        _ => Err(Refusal::error("42601", "COPY takes a table or a question in parentheses")),
    }
}

/// The options of COPY: `WITH (FORMAT csv, HEADER)`, or the old `WITH CSV HEADER`.
fn form(words: &[&Token]) -> Result<Form, Refusal> {
    let mut form = Form::Text;
    let mut header = false;
    for word in words {
        match spelled(Some(word)).as_str() {
            "BINARY" => form = Form::Binary,
            "CSV" => form = Form::Csv(false),
            "TEXT" => form = Form::Text,
            "HEADER" => header = true,
            "TRUE" | "ON" | "WITH" | "FORMAT" => {}
            "FALSE" | "OFF" => header = false,
            _ if matches!(word, Token::LParen | Token::RParen | Token::Comma) => {}
            _ => {
                let refusal = Refusal::error("0A000", format!("COPY knows no option {word}"));
                return Err(refusal.with_hint("FORMAT binary, text or csv, and HEADER for csv"));
            }
        }
    }
    match form {
        Form::Csv(_) => Ok(Form::Csv(header)),
        form if !header => Ok(form),
        _ => Err(Refusal::error("0A000", "COPY writes a header in csv only")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sql: &str) -> Statement {
        let mut found = statements(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal:?}"));
        assert_eq!(found.len(), 1, "{sql}");
        found.remove(0)
    }

    fn code(sql: &str) -> &'static str {
        statements(sql).err().map_or("", |refusal| refusal.code())
    }

    fn set(name: &str, value: Option<&str>) -> Statement {
        Statement::Set(Set { name: Some(name.to_owned()), value: value.map(str::to_owned) })
    }

    #[test]
    fn a_text_is_split_where_statements_end() {
        let found = statements("BEGIN;\n SELECT ';', \"a;b\" -- c;\n FROM t /* d; */ ; COMMIT;;").expect("statements");
        let question = "SELECT ';', \"a;b\" -- c;\n FROM t /* d; */".to_owned();
        assert_eq!(found, [Statement::Begin, Statement::Query(question), Statement::Commit]);
        assert_eq!(one(" -- nothing\n ; ;"), Statement::Empty);
        assert_eq!(one("SELECT 'ö;\u{1F980}'; "), Statement::Query("SELECT 'ö;\u{1F980}'".to_owned()));
        assert_eq!(one("select $$a;b$$"), Statement::Query("select $$a;b$$".to_owned()));
        assert_eq!(code("SELECT 1; SELECT 2"), "42601");
        assert_eq!(code("SELECT 'open"), "42601");
        assert_eq!(code(&"BEGIN;".repeat(1_000)), "54000");
    }

    #[test]
    fn words_in_passing_are_known() {
        assert_eq!(one("begin isolation level repeatable read"), Statement::Begin);
        assert_eq!(one("START TRANSACTION READ ONLY"), Statement::Begin);
        assert_eq!(code("START TRANSACTION READ WRITE"), "25006");
        assert_eq!(code("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"), "25006");
        assert_eq!(one("ROLLBACK TO SAVEPOINT a"), Statement::Nothing("ROLLBACK"));
        assert_eq!(one("SET statement_timeout = '5s'"), set("statement_timeout", Some("5s")));
        assert_eq!(one("set session DateStyle to ISO, MDY"), set("datestyle", Some("ISO,MDY")));
        assert_eq!(one("SET TIME ZONE 'Europe/Berlin'"), set("timezone", Some("Europe/Berlin")));
        assert_eq!(one("SET search_path TO DEFAULT"), set("search_path", None));
        assert_eq!(
            one("SET datafusion.runtime.memory_limit = '1G'"),
            set("datafusion.runtime.memory_limit", Some("1G"))
        );
        assert_eq!(one("RESET ALL"), Statement::Set(Set { name: None, value: None }));
        assert_eq!(one("SHOW transaction isolation level"), Statement::Show("transaction_isolation".to_owned()));
        assert_eq!(one("SHOW TABLES"), Statement::Query("SHOW TABLES".to_owned()));
        assert_eq!(one("DEALLOCATE PREPARE \"Stm\""), Statement::Deallocate(Some("Stm".to_owned())));
        assert_eq!(one("CLOSE ALL"), Statement::Close(None));
        assert_eq!(code("SET x"), "42601");
        assert_eq!((code("insert into t values (1)"), code("EXPLAIN ANALYZE DELETE FROM t")), ("25006", "25006"));
        assert_eq!(one("EXPLAIN SELECT 1"), Statement::Query("EXPLAIN SELECT 1".to_owned()));
    }

    #[test]
    fn cursors_and_copies_are_questions() {
        let query = "SELECT * FROM tokens WHERE x = 'to'".to_owned();
        let declared = one(&format!("DECLARE \"c\" NO SCROLL CURSOR FOR {query}"));
        assert_eq!(declared, Statement::Declare("c".to_owned(), query.clone()));
        assert_eq!(one("FETCH FORWARD 100 FROM \"c\""), Statement::Fetch("c".to_owned(), 100));
        assert_eq!(one("fetch all in c"), Statement::Fetch("c".to_owned(), 0));
        assert_eq!(code("FETCH BACKWARD 3 FROM c"), "0A000");
        let copy = |sql: &str| match one(sql) {
            Statement::Copy(copy) => (copy.query, copy.form),
            other => panic!("{other:?}"),
        };
        assert_eq!(copy(&format!("COPY ({query}) TO STDOUT (FORMAT binary)")), (query, Form::Binary));
        assert_eq!(
            copy("COPY (SELECT count(*), 'it''s)' FROM t) TO STDOUT WITH CSV HEADER"),
            ("SELECT count(*), 'it''s)' FROM t".to_owned(), Form::Csv(true))
        );
        assert_eq!(copy("copy public.tokens (a, \"B\") to stdout").0, "SELECT a,\"B\" FROM public.tokens");
        for writes in ["COPY t FROM STDIN", "COPY t TO '/tmp/x'", "COPY (SELECT 1) TO PROGRAM 'sh'", "COPY t"] {
            assert_eq!(code(writes), "25006", "{writes}");
        }
        assert_eq!(code("COPY t TO STDOUT (FORMAT json)"), "0A000");
    }
}
