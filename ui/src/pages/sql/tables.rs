//! Tables and views beside the editor, each with its meaning.

use leptos::prelude::*;

use crate::ask::{Answer, Row};
use crate::panel::sql_link;

/// Views come first, the one that counts calls before all.
pub(super) const SQL: &str = "SHOW TABLES";

pub(super) fn view(answer: &Answer) -> AnyView {
    let own = answer.rows().filter(|row| row.text("table_schema") != Some("information_schema"));
    let rows: Vec<_> = own.filter_map(|row| line(&row)).collect();
    view! {
        <nav class="panel tables" aria-label="Tables and views">
            <header><h2>"Tables and views"</h2></header>
            <ul>{rows}</ul>
        </nav>
    }
    .into_any()
}

fn line(row: &Row<'_>) -> Option<AnyView> {
    let (schema, name) = (row.text("table_schema")?, row.text("table_name")?);
    let name = if schema == "public" { quoted(name) } else { format!("{}.{}", quoted(schema), quoted(name)) };
    let comment = row.text("comment").unwrap_or_default().to_owned();
    let select = sql_link(&format!("SELECT * FROM {name} LIMIT 20"));
    let columns = sql_link(&format!("DESCRIBE {name}"));
    Some(view! { <li title=comment><a href=select>{name}</a><a class="sql" href=columns>"columns"</a></li> }.into_any())
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
