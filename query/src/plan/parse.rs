//! From text to one statement, with `FROM t VERSION AS OF 7` turned into the name `t@7`.
//!
//! No dialect whose other syntax we want knows table versions, so they are taken out of the token stream before the
//! parser sees it. Four tokens `VERSION AS OF <number>` after a name can mean nothing else: no number may follow an alias.

use datafusion::{
    common::{DataFusionError, Result, plan_err},
    sql::{
        parser::Statement,
        sqlparser::{
            dialect::PostgreSqlDialect,
            keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS},
            parser::Parser,
            tokenizer::{Token, TokenWithSpan, Tokenizer, Word},
        },
    },
};

use super::weigh;

/// Deepest nesting of a statement; deeper ones are refused instead of exhausting the stack.
const NESTING_MAX: usize = 64;

/// Most links of a statement's chains: `1 + 1 + …` nests no brackets, yet becomes a tree as deep as it is long.
const LINKS_MAX: usize = 1_000;

/// Most function calls of a statement: the results of all of them may be held at once.
const CALLS_MAX: usize = 2_000;

/// Parses exactly one statement.
///
/// # Errors
/// A plan error that says where the text is not SQL, or that it holds no statement or several.
pub(crate) fn statement(sql: &str) -> Result<Statement> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|error| syntax(error.into()))?;
    if tokens.iter().filter(|token| is_link(&token.token)).count() > LINKS_MAX {
        return plan_err!("the statement has more than {LINKS_MAX} operators; IN (…) lists many values without one");
    }
    let tokens = pin_versions(tokens)?;
    if tokens.windows(2).filter(|pair| is_call(&pair[0].token, &pair[1].token)).count() > CALLS_MAX {
        return plan_err!("the statement has more than {CALLS_MAX} function calls");
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let mut statements = parser.parse_statements().map_err(syntax)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(only), true) => {
            weigh::check(&only)?;
            Ok(Statement::Statement(Box::new(only)))
        }
        (None, _) => plan_err!("there is no statement"),
        (Some(_), false) => plan_err!("one statement at a time: there are several"),
    }
}

fn syntax(error: datafusion::sql::sqlparser::parser::ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(error), None)
}

/// Whether the token may hang what follows below what came before. Names, values and what separates items do not.
fn is_link(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::JOIN
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::AT
                | Keyword::COLLATE
                | Keyword::CASE
        ),
        Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Comma | Token::Period => false,
        Token::LParen | Token::RParen | Token::RBracket | Token::SemiColon | Token::Placeholder(_) => false,
        _ => true,
    }
}

/// A name with a parenthesis right behind it.
fn is_call(name: &Token, next: &Token) -> bool {
    matches!((name, next), (Token::Word(_), Token::LParen))
}

/// A table name and the version it is pinned to: `tokens@7`.
pub(crate) fn split_version(name: &str) -> (&str, Option<i64>) {
    match name.rsplit_once('@').map(|(table, version)| (table, version.parse())) {
        Some((table, Ok(version))) => (table, Some(version)),
        _ => (name, None),
    }
}

fn pin_versions(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut at = 1;
    while at + 3 < tokens.len() {
        let Some(version) = version_at(&tokens[at..])? else {
            at += 1;
            continue;
        };
        let Token::Word(name) = &tokens[at - 1].token else {
            return plan_err!("VERSION AS OF must follow the name of a table");
        };
        let table = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
        let span = tokens[at - 1].span;
        tokens[at - 1].token = quoted(format!("{table}@{version}"));
        let alias =
            if has_alias(&tokens[at + 4..]) { vec![] } else { vec![unquoted("AS", Keyword::AS), quoted(table)] };
        tokens.splice(at..at + 4, alias.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    Ok(tokens)
}

/// The number in `VERSION AS OF <number>`, if that is how the tokens begin.
fn version_at(tokens: &[TokenWithSpan]) -> Result<Option<i64>> {
    let [version, r#as, of, number, rest @ ..] = tokens else { return Ok(None) };
    if !(is_word(&version.token, "VERSION") && is_word(&r#as.token, "AS") && is_word(&of.token, "OF")) {
        return Ok(None);
    }
    let given = match &number.token {
        Token::Number(digits, _) => match digits.parse::<i64>() {
            Ok(version) => return Ok(Some(version)),
            Err(_) => digits.clone(),
        },
        Token::Minus => format!("-{}", rest.first().map(|next| next.token.to_string()).unwrap_or_default()),
        Token::SingleQuotedString(_) | Token::Placeholder(_) => number.token.to_string(),
        // a column of that name may be called `of`
        _ => return Ok(None),
    };
    plan_err!(
        "VERSION AS OF takes a whole number from 0 on, not {given}; system.freshness lists the newest of each table"
    )
}

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

fn has_alias(rest: &[TokenWithSpan]) -> bool {
    match rest.first().map(|next| &next.token) {
        Some(Token::Word(word)) => {
            word.quote_style.is_some()
                || word.keyword == Keyword::AS
                || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    }
}

fn quoted(value: String) -> Token {
    Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

fn unquoted(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.to_owned(), quote_style: None, keyword })
}

#[cfg(test)]
mod tests {
    use super::{split_version, statement};

    fn pinned(sql: &str) -> String {
        statement(sql).expect(sql).to_string()
    }

    #[test]
    fn a_version_becomes_part_of_the_name_and_the_table_keeps_its_own() {
        assert_eq!(pinned("SELECT * FROM Tokens VERSION AS OF 7"), r#"SELECT * FROM "tokens@7" AS "tokens""#);
        assert_eq!(
            pinned("select t.x from tokens version as of 7 t where t.x = 1"),
            r#"SELECT t.x FROM "tokens@7" t WHERE t.x = 1"#
        );
        assert_eq!(
            pinned("SELECT * FROM public.tokens VERSION AS OF 7 AS a JOIN requests VERSION AS OF 3 ON true"),
            r#"SELECT * FROM public."tokens@7" AS a JOIN "requests@3" AS "requests" ON true"#
        );
    }

    #[test]
    fn text_and_columns_of_that_name_are_left_alone() {
        for sql in ["SELECT 'a VERSION AS OF 7'", "SELECT version AS of FROM t", "SELECT version FROM t"] {
            assert_eq!(pinned(sql), sql);
        }
    }

    #[test]
    fn a_version_that_cannot_be_is_named() {
        for version in ["-3", "1.5", "'7'", "$v", "99999999999999999999"] {
            let error = statement(&format!("SELECT * FROM tokens VERSION AS OF {version}")).expect_err(version);
            let text = error.to_string();
            assert!(text.contains(&format!("from 0 on, not {version}")), "{text}");
        }
    }

    #[test]
    fn calls_are_counted() {
        let calls = |count| format!("SELECT concat({})", vec!["abs (1)"; count].join(", "));
        assert!(statement(&calls(1_000)).is_ok());
        let error = statement(&calls(2_000)).expect_err("too many");
        assert!(error.to_string().contains("2000 function calls"), "{error}");
    }

    #[test]
    fn one_statement_is_taken_and_nothing_else() {
        assert!(statement("SELECT 1;").is_ok());
        for sql in ["", "  ;", "SELECT 1; SELECT 2", "SELECT 'open"] {
            assert!(statement(sql).is_err(), "{sql}");
        }
        let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(statement(&deep).is_err());
        let values = vec!["1"; 10_000];
        for link in ["+", " OR ", " UNION SELECT "] {
            assert!(statement(&format!("SELECT {}", values.join(link))).is_err(), "{link}");
        }
        assert!(statement(&format!("SELECT 1 IN ({})", values.join(", "))).is_ok());
    }

    #[test]
    fn a_pinned_name_comes_apart_again() {
        assert_eq!(split_version("tokens@7"), ("tokens", Some(7)));
        assert_eq!(split_version("tokens"), ("tokens", None));
        assert_eq!(split_version("a@b"), ("a@b", None));
    }
}
