//! `docs/schema.md` and `docs/wire.md`, printed from the registry and the names.

use std::fmt::Write;

use crate::{
    names,
    table::{PARTITION, Role, TABLES, Table},
};

/// The text of `docs/schema.md`.
pub fn schema_markdown() -> String {
    let mut page = String::from(
        "# Tables\n\nGenerated from `telemetry::table`; `cargo xtask docs` prints it again.\n\nEvery table is a Delta table (reader 1, writer 2) at \
         `<data>/<table>/`, partitioned by `date`, the UTC date of `time`. Columns are only added, nullable, at the end. How long \
         rows are kept is declared here; `maintenance.retention_days` sets it otherwise for a lake.\n",
    );
    for table in TABLES {
        push_table(&mut page, table);
    }
    page
}

/// The text of `docs/wire.md`.
pub fn wire_markdown() -> String {
    let mut page =
        String::from("# On the wire\n\nGenerated from `telemetry::names`; `cargo xtask docs` prints it again.\n");
    for (title, section) in names::SECTIONS {
        let _ = write!(page, "\n## {title}\n\n| name | unit or type | meaning |\n|---|---|---|\n");
        for name in *section {
            let _ = writeln!(page, "| `{}` | {} | {} |", name.name, name.unit, name.doc);
        }
    }
    page
}

fn push_table(page: &mut String, table: &Table) {
    let kept = table.retention_days.map_or("for ever".to_owned(), |days| format!("{days} days"));
    let fed = match table.role {
        Role::Live => "within seconds",
        Role::Bulk => "within ten seconds",
        Role::Reference => "from dated facts",
        Role::Operations => "by Tokenwatt itself or an import",
        Role::Rollup => "from the raw tables",
    };
    let _ = write!(
        page,
        "\n## {}\n\nA row is {}. Fed {fed}, to be kept {kept}, compacted in the order of {}.\n\n| column | type | unit | meaning |\n|---|---|---|---|\n",
        table.name,
        table.doc,
        table.order.join(", "),
    );
    for column in table.columns() {
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", column.name, column.kind.sql(), column.unit, column.doc);
    }
    let _ = writeln!(page, "| `{PARTITION}` | DATE |  | UTC date of `time`, the partition |");
}
