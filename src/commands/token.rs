//! `tokenwatt token`: a new token for a principal, and the hash that the settings hold of it.

use crate::failure::Failure;
use crate::print;

pub(crate) fn run() -> Result<(), Failure> {
    let (token, hash) = service::principal::new_token()?;
    print::line(format!("token         {}", token.expose()));
    print::line(format!("token_sha256  {hash}"));
    print::line(
        "\nGive the token to the caller, who sends it as `authorization: Bearer <token>`; it is stored nowhere.",
    );
    print::line("Put the hash into tokenwatt.toml:\n");
    print::line(format!(
        "[[principal]]\nname = \"nodes\"\nrole = \"writer\"            # or \"reader\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"*\"]"
    ));
    Ok(())
}
