//! The dashboard in a real browser.

use crate::world::{Server, axe, bundle, client};

/// Every page reads well in Chromium: light, dark, narrow, with scripts and without. Where there is a web bundle, its islands are
/// used too.
pub(super) fn reads_every_page(server: &Server) {
    let axe = axe();
    let said = client("browser.py", &[server.http(), bundle()], &[("TOKENWATT_AXE", axe.to_str().expect("a path"))]);
    assert!(said.contains("holds: the console is empty"), "{said}");
    let islands = said.contains("holds: the crosshair follows the pointer");
    assert_eq!(islands, bundle() == "bundle", "{said}");
}
