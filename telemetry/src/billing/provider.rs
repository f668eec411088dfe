//! Providers by one name each, however exports spell them.

/// The name that bills are kept under, and what exports call the provider, in lower case: so, or so with a firm's ending after it.
const PROVIDERS: [(&str, &[&str]); 4] = [
    ("AWS", &["aws", "amazon web services", "amazon", "amazon.com"]),
    ("Microsoft", &["microsoft", "microsoft azure", "azure"]),
    ("Google Cloud", &["google", "google cloud", "google cloud platform", "gcp"]),
    ("Oracle", &["oracle", "oracle cloud", "oracle cloud infrastructure", "oci"]),
];
/// What follows a name in a firm's full one.
const ENDINGS: [&str; 14] = [
    "inc",
    "incorporated",
    "llc",
    "ltd",
    "limited",
    "corp",
    "corporation",
    "emea",
    "sarl",
    "gmbh",
    "america",
    "ireland",
    "operations",
    "pbc",
];

/// The provider's name. One that is not known stays as it is, but for its spaces and slashes, which stand between the parts of a bill's name.
pub(super) fn named(stated: &str) -> String {
    let lower = stated.to_lowercase();
    let mut words: Vec<&str> = lower
        .split([' ', ',', '\t', '/'])
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    while words.len() > 1 && words.last().is_some_and(|word| ENDINGS.contains(word)) {
        words.pop();
    }
    let plain = words.join(" ");
    let known = PROVIDERS.iter().find(|(_, names)| names.contains(&plain.as_str()));
    let as_it_is = || stated.split([' ', '\t', '/']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    known.map_or_else(as_it_is, |(name, _)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_provider_has_one_name() {
        for (stated, name) in [
            ("AWS", "AWS"),
            ("Amazon Web Services", "AWS"),
            ("Amazon Web Services, Inc.", "AWS"),
            ("Amazon Web Services EMEA SARL", "AWS"),
            ("Microsoft", "Microsoft"),
            ("Microsoft Azure", "Microsoft"),
            ("Microsoft Ireland Operations Limited", "Microsoft"),
            ("Google Cloud Platform", "Google Cloud"),
            ("Google LLC", "Google Cloud"),
            ("Oracle Corporation", "Oracle"),
            ("Oracle Cloud Infrastructure", "Oracle"),
            ("Nebula  Compute/EU", "Nebula Compute EU"),
            ("Amazonia", "Amazonia"),
            ("Inc.", "Inc."),
        ] {
            assert_eq!(named(stated), name, "{stated}");
        }
    }
}
