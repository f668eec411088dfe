//! What clients of PostgreSQL write when they look around, in words that the engine knows.
//!
//! Only questions about the catalog or the connection are rewritten; everybody else's go to the engine as they are written. The
//! library's rewriting may turn a part that it does not understand into NULL, which is harmless in a listing of columns and would be
//! a lie in an answer.

use std::{collections::BTreeMap, ops::ControlFlow};

use datafusion::sql::sqlparser::{
    ast::{
        CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem,
        SetExpr, Statement, TableFactor, Value, VisitMut, VisitorMut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
    tokenizer::Token,
};
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;

use super::{constants, login::SERVER_VERSION, statement::tokens};
use crate::{
    front::session::Settings,
    session::{CATALOG, SCHEMA},
};

/// Most words of a question about the catalog that may make it deeper; psql's longest has some 500.
const WORDS_MAX: usize = 1_500;
/// Of `CAST($1 AS INTEGER)`, those that are no constants.
const TYPED_WORDS: usize = 5;
/// Longest question about the catalog with its constants: SQLAlchemy names each relation that it asks about.
const LENGTH_MAX: usize = 20_000;

/// Words that only questions about the catalog or the connection hold, apart from all that begin with `pg_`.
const TELLING: [&str; 16] = [
    "information_schema",
    "current_setting",
    "current_user",
    "current_role",
    "session_user",
    "current_schema",
    "current_schemas",
    "current_database",
    "current_catalog",
    "obj_description",
    "col_description",
    "shobj_description",
    "quote_ident",
    "regclass",
    "has_table_privilege",
    "has_schema_privilege",
];

/// Rewrites questions about the catalog.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    library: PostgresCompatibilityParser,
}

/// What a connection is.
pub(super) struct Facts<'c> {
    pub(super) user: &'c str,
    pub(super) process: i32,
    pub(super) settings: &'c Settings,
    /// Values of `$1`, `$2`, … as far as they are known.
    pub(super) params: &'c BTreeMap<String, serde_json::Value>,
}

impl Dialect {
    /// The question in the engine's words.
    pub(super) fn adapted(&self, sql: &str, facts: &Facts<'_>) -> String {
        self.rewritten(sql, facts).unwrap_or_else(|| sql.to_owned())
    }

    /// `None` for what is not about the catalog, or cannot be read: the engine says better why.
    fn rewritten(&self, sql: &str, facts: &Facts<'_>) -> Option<String> {
        let tokens = tokens(sql).ok()?;
        let words: Vec<&Token> = tokens.iter().map(|token| &token.token).collect();
        if words.len() > LENGTH_MAX || deepening(&words) > WORDS_MAX || !is_about_catalog(&words) {
            return None;
        }
        // The library knows whole questions by their words, so it looks at them first.
        let mut statements = self.library.parse(sql).ok()?;
        let mut statement = statements.pop().filter(|_| statements.is_empty())?;
        if !matches!(statement, Statement::Query(_) | Statement::Explain { .. }) {
            return None;
        }
        let asks_path = sql.contains("current_setting('search_path')");
        let _ = VisitMut::visit(&mut statement, &mut Known { facts, asks_path });
        Some(statement.to_string())
    }
}

/// How many words may make it deeper. A parameter with its type, `CAST($1 AS INTEGER)`, is an item like any other.
fn deepening(words: &[&Token]) -> usize {
    let words: Vec<&Token> = words.iter().copied().filter(|word| !matches!(word, Token::Whitespace(_))).collect();
    let is_typed = |begin: &[&Token]| matches!(begin, [Token::Word(cast), Token::LParen, Token::Placeholder(_)] if cast.value.eq_ignore_ascii_case("cast"));
    let typed = words.windows(3).filter(|begin| is_typed(begin)).count();
    words.iter().filter(|word| !is_constant(word)).count().saturating_sub(typed * TYPED_WORDS)
}

/// An item of a list, or what stands around it: however many there are, nothing is inside anything.
fn is_constant(token: &Token) -> bool {
    matches!(
        token,
        Token::Placeholder(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Comma | Token::Whitespace(_)
    )
}

fn is_about_catalog(words: &[&Token]) -> bool {
    let telling = |word: &str| word.starts_with("pg_") || TELLING.contains(&word);
    let is_call = |pair: &[&Token]| matches!(pair, [Token::Word(word), Token::LParen] if word.value.eq_ignore_ascii_case("version"));
    let is_telling = |token: &&Token| matches!(token, Token::Word(word) if telling(&word.value.to_lowercase()));
    words.iter().any(is_telling) || words.windows(2).any(is_call)
}

/// Puts in what is known of the connection, and of the catalog without looking.
struct Known<'f, 'c> {
    facts: &'f Facts<'c>,
    /// Whether the question takes the search path apart.
    asks_path: bool,
}

impl VisitorMut for Known<'_, '_> {
    type Break = ();

    /// A column that is put in keeps the name that PostgreSQL gives it.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Expr::Function(function) = expr
                    && let Some(name) = name(function).filter(|_| self.value(function).is_some())
                {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let known = match expr {
            Expr::Function(function) => self.value(function).map(literal).or_else(|| nothing(function)),
            Expr::Subquery(query) if is_of_nothing(query) => Some(literal(Value::Null)),
            // Grafana takes the search path apart with functions of rows that the engine does not have; the library looks for the
            // schema without a name instead.
            Expr::InList { list, .. } if self.asks_path && is_empty_text(list) => {
                *list = vec![literal(text(SCHEMA))];
                None
            }
            // The engine knows the backslash alone.
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                if let Some(escape) = escape_char.take() {
                    **pattern = escaped(pattern, &escape.to_string()).unwrap_or_else(|| (**pattern).clone());
                }
                None
            }
            // What PostgreSQL has as the number 0, the library has as a dash.
            Expr::BinaryOp { left, right, .. } if is_procedure(left) && right.to_string() == "0" => {
                **right = literal(text("-"));
                None
            }
            _ => None,
        };
        if let Some(known) = known {
            *expr = known;
        }
        ControlFlow::Continue(())
    }
}

impl Known<'_, '_> {
    /// What the function would give on this connection, if that is known without the engine.
    fn value(&self, function: &Function) -> Option<Value> {
        let arguments = arguments(function, self.facts.params);
        Some(match (name(function)?.as_str(), arguments.as_slice()) {
            ("current_user" | "session_user" | "current_role" | "user", []) => text(self.facts.user),
            ("current_database" | "current_catalog", []) => text(CATALOG),
            ("current_schema", []) => text(SCHEMA),
            ("version", []) => {
                let own = env!("CARGO_PKG_VERSION");
                text(&format!("Tokenwatt {own}, compatible with PostgreSQL {SERVER_VERSION}"))
            }
            ("pg_backend_pid", []) => Value::Number(self.facts.process.to_string(), false),
            ("pg_is_in_recovery", []) => Value::Boolean(false),
            ("pg_get_userbyid", [_]) => text(CATALOG),
            ("pg_encoding_to_char", [_]) => text("UTF8"),
            // A description comes before the values.
            ("current_setting", [None, ..]) if is_placeholder(function) => Value::Null,
            ("current_setting", [Some(name), ..]) => match constants::of(name) {
                Some(value) => text(value),
                None => match self.facts.settings.show(name) {
                    Ok(value) => text(value),
                    Err(_) if arguments.len() > 1 => Value::Null,
                    Err(_) => return None,
                },
            },
            _ => return None,
        })
    }
}

/// What is taken apart that nothing of ours has: options of tables, and the keys of indexes and constraints. The engine has no
/// function for the one and the library no arrays for the other.
fn nothing(function: &Function) -> Option<Expr> {
    let about = |words: &[&str]| {
        let written = function.args.to_string();
        words.iter().any(|word| written.contains(word))
    };
    let null = |kind: DataType| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(literal(Value::Null)),
        data_type: kind,
        array: false,
        format: None,
    };
    match name(function)?.as_str() {
        "array_to_string" if about(&["reloptions"]) => Some(literal(text(""))),
        "unnest" if about(&["conkey", "confkey", "indkey", "indoption", "indclass", "indcollation"]) => {
            Some(null(DataType::SmallInt(None)))
        }
        "generate_subscripts" => Some(null(DataType::Int(None))),
        _ => None,
    }
}

/// Whether the subquery looks for what no column of ours has: a default, a sequence, a collation other than its type's.
fn is_of_nothing(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let Some(TableFactor::Table { name, .. }) = select.from.first().map(|from| &from.relation) else { return false };
    let table = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.as_str());
    match (table, select.projection.as_slice()) {
        (Some("pg_attrdef" | "pg_sequence" | "pg_collation"), _) => true,
        (Some("pg_type"), [SelectItem::UnnamedExpr(column)]) => column.to_string().ends_with("typcollation"),
        _ => false,
    }
}

/// The pattern with its escapes as the engine knows them.
fn escaped(pattern: &Expr, escape: &str) -> Option<Expr> {
    let sql = format!("replace({pattern}, {escape}, '\\')");
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql).ok()?.parse_expr().ok()
}

/// Whether it is a column that names a function of a type.
fn is_procedure(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| matches!(name.value.as_str(), "typreceive" | "typsend" | "typinput" | "typoutput"))
}

fn literal(value: Value) -> Expr {
    Expr::Value(value.with_empty_span())
}

fn is_empty_text(list: &[Expr]) -> bool {
    matches!(list, [Expr::Value(value)] if value.value == text(""))
}

fn text(value: &str) -> Value {
    Value::SingleQuotedString(value.to_owned())
}

/// The function's name without its schema.
fn name(function: &Function) -> Option<String> {
    let last = function.name.0.last()?.as_ident()?;
    Some(last.value.to_lowercase())
}

/// The arguments, those that are texts with their text.
fn arguments(function: &Function, params: &BTreeMap<String, serde_json::Value>) -> Vec<Option<String>> {
    let text = |value: Option<&Value>| match value? {
        Value::SingleQuotedString(text) => Some(text.clone()),
        Value::Placeholder(name) => Some(params.get(name.trim_start_matches('$'))?.as_str()?.to_owned()),
        _ => None,
    };
    constants(function).into_iter().map(text).collect()
}

fn is_placeholder(function: &Function) -> bool {
    matches!(constants(function).first(), Some(Some(Value::Placeholder(_))))
}

/// The arguments that are constants, with a type of their own or without.
fn constants(function: &Function) -> Vec<Option<&Value>> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    list.args.iter().map(constant).collect()
}

fn constant(argument: &FunctionArg) -> Option<&Value> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return None };
    let mut inner = expr;
    while let Expr::Cast { expr, .. } = inner {
        inner = expr;
    }
    match inner {
        Expr::Value(value) => Some(&value.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Dialect, Facts};
    use crate::front::session::Settings;

    fn adapted(sql: &str) -> String {
        adapted_with(sql, &BTreeMap::new())
    }

    fn adapted_with(sql: &str, params: &BTreeMap<String, serde_json::Value>) -> String {
        let facts = Facts { user: "o'hara", process: 7, settings: &Settings::default(), params };
        Dialect::default().adapted(sql, &facts)
    }

    #[test]
    fn questions_about_data_are_left_as_they_are() {
        for sql in [
            "SELECT  (SELECT max(x) FROM t WHERE t.a = u.a) FROM u  -- as written",
            "SELECT service_version, version FROM requests VERSION AS OF 7",
            "SELECT 'pg_class', 'current_user'",
            "SELECT pg_ FROM",
        ] {
            assert_eq!(adapted(sql), sql);
        }
    }

    #[test]
    fn what_is_known_of_the_connection_is_put_in() {
        assert_eq!(adapted("SELECT current_user"), "SELECT 'o''hara' AS session_user");
        assert_eq!(adapted("select pg_catalog.current_schema()"), "SELECT 'public' AS current_schema");
        assert!(adapted("SELECT version()").contains("compatible with PostgreSQL 16.6' AS version"));
        assert_eq!(
            adapted("SELECT current_setting('server_version_num')::int/100 as version"),
            "SELECT '160006'::INT / 100 AS version"
        );
        assert_eq!(adapted("SELECT current_setting('no.such', true) AS x"), "SELECT NULL AS x");
        assert!(adapted("SELECT current_setting('work_mem')").contains("current_setting('work_mem')"));
    }

    /// psql asks for options of tables, SQLAlchemy for the keys of indexes.
    #[test]
    fn what_nothing_of_ours_has_is_not_looked_for() {
        let sql = "SELECT pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from \
                   pg_catalog.unnest(tc.reloptions) x), ', ') FROM pg_catalog.pg_class c";
        assert_eq!(adapted(sql), "SELECT '' FROM pg_catalog.pg_class c");
        let many: Vec<String> = (1..=1_000).map(|number| format!("CAST(${number} AS SMALLINT)")).collect();
        let sql = format!("SELECT unnest(i.indkey) FROM pg_index AS i WHERE i.indrelid IN ({})", many.join(", "));
        assert!(!adapted(&sql).contains("unnest"), "a list of parameters makes nothing deeper");
        let sql = "SELECT unnest(pg_index.indkey), generate_subscripts(pg_index.indkey, 1) FROM pg_index";
        assert!(adapted(sql).starts_with("SELECT CAST(NULL AS SMALLINT), CAST(NULL AS INT) FROM"), "{}", adapted(sql));
    }

    /// SQLAlchemy asks, within a CASE, for a column's default, its sequence and its collation, each with a subquery.
    #[test]
    fn a_default_a_sequence_and_a_collation_are_nothing_s() {
        let sql = "SELECT CASE WHEN a.atthasdef THEN (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef AS d \
                   WHERE d.adrelid = a.attrelid) ELSE NULL END, CASE WHEN (a.attidentity <> $1::VARCHAR) THEN (SELECT \
                   json_build_object($2::VARCHAR, pg_catalog.pg_sequence.seqstart) FROM pg_catalog.pg_sequence WHERE \
                   seqrelid = a.attrelid) ELSE NULL END, CASE WHEN ((SELECT pg_catalog.pg_type.typcollation FROM \
                   pg_catalog.pg_type WHERE pg_catalog.pg_type.oid = a.atttypid) <> a.attcollation) THEN 1 END \
                   FROM pg_catalog.pg_attribute AS a";
        let asked = adapted(sql);
        assert!(!asked.contains("(SELECT") && !asked.contains("json_build_object"), "{asked}");
        assert_eq!(asked.matches("NULL").count(), 5, "{asked}");
        // Whatever else is asked of them stays.
        let sql = "SELECT 1 FROM pg_catalog.pg_type AS t WHERE t.oid IN (SELECT adrelid FROM pg_catalog.pg_attrdef)";
        assert!(adapted(sql).contains("(SELECT adrelid"), "{}", adapted(sql));
    }

    /// The name of a setting may be a parameter, whose value comes after the description.
    #[test]
    fn a_setting_is_named_by_a_parameter() {
        let sql = "SELECT current_setting($1::VARCHAR) AS held";
        assert_eq!(adapted(sql), "SELECT NULL AS held");
        let known = BTreeMap::from([("1".to_owned(), serde_json::json!("server_encoding"))]);
        assert_eq!(adapted_with(sql, &known), "SELECT 'UTF8' AS held");
    }

    /// One that names four thousand relations is read, one as deep as it is long is not.
    #[test]
    fn a_long_list_is_not_a_deep_question() {
        let numbers = (1..4_000).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        let long = adapted(&format!("SELECT pg_catalog.pg_get_expr(1, 2) FROM pg_class WHERE oid IN ({numbers})"));
        assert!(long.contains("FROM pg_catalog.pg_class"), "{}", long.get(..100).unwrap_or_default());
        let deep = format!("SELECT {}1 FROM pg_class", "- ".repeat(2_000));
        assert_eq!(adapted(&deep), deep);
    }

    /// SQLAlchemy escapes with a slash, ADBC compares functions with numbers.
    #[test]
    fn what_the_engine_spells_otherwise_is_respelled() {
        let sql = adapted("SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg/_' || '%' ESCAPE '/'");
        assert!(sql.ends_with("NOT LIKE replace('pg/_' || '%', '/', '\\')"), "{sql}");
        let sql = adapted("SELECT oid FROM pg_catalog.pg_type WHERE typreceive != 0 AND oid <> 0");
        assert!(sql.ends_with("typreceive <> '-' AND oid <> 0"), "{sql}");
    }

    #[test]
    fn grafanas_search_path_is_ours() {
        let sql = "select quote_ident(table_name) as \"table\" from information_schema.tables where \
                   quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END \
                   FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), \
                   array_upper(string_to_array(current_setting('search_path'),','),1)) as i, \
                   string_to_array(current_setting('search_path'),',') s)";
        assert!(adapted(sql).ends_with("quote_ident(table_schema) IN ('public')"), "{}", adapted(sql));
    }
}
