//! Settings that clients ask for and that are what they are: they may be set to what they hold.

use super::{login::SERVER_VERSION, refusal::Refusal};

const CONSTANTS: [(&str, &str); 17] = [
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("server_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("bytea_output", "hex"),
    ("intervalstyle", "postgres"),
    ("integer_datetimes", "on"),
    ("is_superuser", "off"),
    ("in_hot_standby", "off"),
    ("transaction_read_only", "on"),
    ("default_transaction_read_only", "on"),
    ("max_identifier_length", "63"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("row_security", "on"),
    ("escape_string_warning", "on"),
    ("default_table_access_method", "heap"),
];

/// Settings that change nothing here whatever they hold: levels of isolation, of messages, and times for locks that nobody takes.
const WITHOUT_EFFECT: [(&str, &str); 7] = [
    ("transaction_isolation", "repeatable read"),
    ("default_transaction_isolation", "repeatable read"),
    ("transaction_deferrable", "off"),
    ("client_min_messages", "notice"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("synchronize_seqscans", "on"),
];

/// What the setting holds; `None` if it is none of these.
pub(super) fn of(name: &str) -> Option<&'static str> {
    let all = CONSTANTS.iter().chain(&WITHOUT_EFFECT);
    all.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// Each with what it holds.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    CONSTANTS.into_iter().chain(WITHOUT_EFFECT)
}

/// # Errors
/// `25006` for a transaction that would write, `0A000` for another value than it has.
pub(super) fn check(name: &str, value: &str) -> Result<(), Refusal> {
    let Some((name, held)) = CONSTANTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        return Ok(());
    };
    if is_same(held, value) {
        return Ok(());
    }
    if name.ends_with("transaction_read_only") {
        return Err(Refusal::read_only("a read-write transaction"));
    }
    Err(Refusal::error("0A000", format!("{name} is {held} and cannot be {value}")))
}

fn is_same(held: &str, value: &str) -> bool {
    let truth = |text: &str| match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    };
    held.eq_ignore_ascii_case(value) || (truth(held).is_some() && truth(held) == truth(value))
}

#[cfg(test)]
mod tests {
    use super::{check, of};

    #[test]
    fn constants_may_be_set_to_what_they_are() {
        let code = |name: &str, value: &str| check(name, value).err().map_or("", |refusal| refusal.code());
        assert_eq!(of("Standard_Conforming_Strings"), Some("on"));
        assert_eq!(of("work_mem"), None);
        assert_eq!((code("standard_conforming_strings", "true"), code("client_min_messages", "warning")), ("", ""));
        assert_eq!(code("bytea_output", "escape"), "0A000");
        assert_eq!(
            (code("transaction_read_only", "off"), code("default_transaction_read_only", "0")),
            ("25006", "25006")
        );
    }
}
