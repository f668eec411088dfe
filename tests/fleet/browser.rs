//! The dashboard in a real browser.

use std::path::Path;

use crate::world::{Server, client};

/// Every page reads well in Chromium: light, dark, narrow, with scripts and without. Where `cargo xtask` has built the web
/// bundle, its islands are used too.
pub(super) fn reads_every_page(server: &Server) {
    let built = Path::new(env!("CARGO_BIN_EXE_tokenwatt")).parent().map(|dir| dir.join("../web/current"));
    let bundle = if built.is_some_and(|dir| dir.exists()) { "bundle" } else { "none" };
    let said = client("browser.py", &[server.http(), bundle], &[]);
    assert!(said.contains("holds: the console is empty"), "{said}");
    let islands = said.contains("holds: the crosshair follows the pointer");
    assert_eq!(islands, bundle == "bundle", "{said}");
}
