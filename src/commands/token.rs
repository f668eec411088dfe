//! `tokenwatt token`: a new token for a principal, and the hash that the settings hold of it.

use crate::failure::Failure;
use crate::print;

pub(crate) fn run() -> Result<(), Failure> {
    let (token, hash) = service::principal::new_token()?;
    let scram = service::principal::scram::Verifier::new(token.expose())?;
    print::line(format!("token         {}", token.expose()));
    print::line(format!("token_sha256  {hash}"));
    print::line(format!("scram         {scram}"));
    print::line(
        "\nGive the token to the caller, who sends it as `authorization: Bearer <token>`; it is stored nowhere. A client of \
         PostgreSQL takes the principal's name for its user and the token for its password.",
    );
    print::line("Put the hash into tokenwatt.toml, and `scram` where a reader uses such a client:\n");
    print::line(format!(
        "[[principal]]\nname = \"nodes\"\nrole = \"writer\"            # or \"reader\"\ntoken_sha256 = \"{hash}\"\nscram = \"{scram}\"\ntenants = [\"*\"]"
    ));
    Ok(())
}
