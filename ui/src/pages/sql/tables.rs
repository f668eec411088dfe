//! Tables and views beside the editor, each with its meaning.

use std::collections::BTreeMap;

use leptos::prelude::*;

use crate::ask::{Answer, Asked, Row};
use crate::panel::links::sql_link;

/// Views come first, the one that counts calls before all.
pub(super) const SQL: &str = "SHOW TABLES";

/// Columns of all of them. Views are planned for it, so a page does not wait for the answer.
pub(super) const COLUMNS_SQL: &str = "SELECT table_schema, table_name, column_name, data_type, unit\nFROM information_schema.columns\nWHERE table_schema NOT IN ('information_schema', 'pg_catalog')\nORDER BY table_schema, table_name, ordinal_position";

/// The tree: each table with its columns folded below it, once those are known.
pub(super) fn view(answer: &Answer, columns: &Asked) -> AnyView {
    let mut below: Below<'_> = BTreeMap::new();
    for row in columns.outcome.iter().flat_map(Answer::rows) {
        if let (Some(schema), Some(table)) = (row.text("table_schema"), row.text("table_name")) {
            below.entry((schema, table)).or_default().push(row);
        }
    }
    let own = answer.rows().filter(|row| row.text("table_schema") != Some("information_schema"));
    let rows: Vec<_> = own.filter_map(|row| line(&row, &below)).collect();
    view! {
        <nav class="panel tables" aria-label="Tables and views">
            <header><div><h2>"Tables and views"</h2></div></header>
            <ul>{rows}</ul>
        </nav>
    }
    .into_any()
}

/// Columns by schema and table.
type Below<'a> = BTreeMap<(&'a str, &'a str), Vec<Row<'a>>>;

fn line(row: &Row<'_>, below: &Below<'_>) -> Option<AnyView> {
    let (schema, table) = (row.text("table_schema")?, row.text("table_name")?);
    let name = if schema == "public" { quoted(table) } else { format!("{}.{}", quoted(schema), quoted(table)) };
    let comment = row.text("comment").unwrap_or_default().to_owned();
    let select = sql_link(&format!("SELECT * FROM {name} LIMIT 20"));
    let known = below.get(&(schema, table));
    let columns = match known {
        None => {
            let link = sql_link(&format!("DESCRIBE {name}"));
            view! { <a class="sql" href=link>"columns"</a> }.into_any()
        }
        Some(rows) => {
            let columns: Vec<_> = rows.iter().map(column).collect();
            let words = format!("{} columns of {name}", rows.len());
            view! { <details><summary aria-label=words title="columns">{rows.len()}</summary><ul>{columns}</ul></details> }.into_any()
        }
    };
    Some(view! { <li title=comment><a href=select>{name}</a>{columns}</li> }.into_any())
}

/// A column with its unit, or else its type.
fn column(row: &Row<'_>) -> AnyView {
    let name = row.text("column_name").map(quoted).unwrap_or_default();
    let kind = row.text("unit").or(row.text("data_type")).unwrap_or_default().to_owned();
    view! { <li>{name}<small>{kind}</small></li> }.into_any()
}

/// A name as SQL reads it back.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.bytes().all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_quotes_get_them() {
        assert_eq!(quoted("requests_1m"), "requests_1m");
        assert_eq!(quoted("O\"Neil"), "\"O\"\"Neil\"");
    }
}
