//! The SQL page under somebody's hands, and charts that are taken away.

use crate::world::{Server, axe, bundle, client};

/// What is typed is completed, run, and marked where it is refused; statements are kept in the browser; charts become pictures.
pub(super) fn works(server: &Server) {
    let axe = axe();
    let said = client("workbench.py", &[server.http(), bundle()], &[("TOKENWATT_AXE", axe.to_str().expect("a path"))]);
    assert!(said.contains("holds: the workbench"), "{said}");
}
