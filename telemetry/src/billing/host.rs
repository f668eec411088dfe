//! Which host a resource of a bill is, and of which type.

/// The id that telemetry calls `host.id`: the instance id of a resource named by it or by a path or ARN that ends with it.
///
/// AWS ids are `i-` and 8 to 17 letters and digits. The published FOCUS samples have letters in them that are no hex digits, so these are
/// let through: the join compares whole ids, and no other resource has that shape. `is_instance` says that the bill itself
/// calls the resource an instance; its last part is the id then (Azure, Google Cloud, Oracle).
pub(super) fn id(resource: &str, is_instance: bool) -> Option<String> {
    let last = resource.rsplit(['/', ':']).next().unwrap_or(resource);
    let of_aws = last.strip_prefix("i-").is_some_and(|rest| {
        (8..=17).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    (of_aws || (is_instance && !resource.starts_with("arn:") && !last.is_empty())).then(|| last.to_owned())
}

/// The first word of a text that is an instance type of AWS, such as in `$0.34 per On Demand Linux c5.2xlarge Instance Hour`.
pub(super) fn type_in(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| is_type(word))
}

/// `family.size`, where the size ends in one of AWS's.
fn is_type(word: &str) -> bool {
    const SIZES: [&str; 7] = ["nano", "micro", "small", "medium", "large", "metal", "xlarge"];
    let Some((family, size)) = word.split_once('.') else { return false };
    let is_family = family.starts_with(|c: char| c.is_ascii_lowercase())
        && family.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let counted = size.trim_start_matches(|c: char| c.is_ascii_digit());
    is_family && (SIZES.contains(&counted) || size.starts_with("metal-"))
}

#[cfg(test)]
mod tests {
    use super::{id, type_in};

    #[test]
    fn a_host_is_found_in_every_spelling() {
        for (resource, host) in [
            ("i-0123456789abcdef0", Some("i-0123456789abcdef0")),
            ("arn:aws:ec2:eu-west-1:200000000014:instance/i-dd81dadf36b8", Some("i-dd81dadf36b8")),
            ("i-0ae9l98e3f12fa3el", Some("i-0ae9l98e3f12fa3el")),
            ("arn:aws:ec2:ap-southeast-1:200000000012:instance/shared-host-9b05eef5", None),
            ("arn:aws:ec2:eu-west-1:200000000014:natgateway/nat-0123456789abcdef0", None),
            ("vol-0123456789abcdef0", None),
            ("i-short", None),
            ("", None),
        ] {
            assert_eq!(id(resource, false).as_deref(), host, "{resource}");
        }
        let azure = "/subscriptions/1/providers/microsoft.compute/virtualmachines/gpu-7";
        assert_eq!((id(azure, true).as_deref(), id(azure, false)), (Some("gpu-7"), None));
        assert_eq!(id("arn:aws:ec2:eu-west-1:2:instance/shared-host-9b05eef5", true), None);
    }

    #[test]
    fn a_type_is_found_in_words() {
        assert_eq!(type_in("$0.34 per On Demand Linux c5.2xlarge Instance Hour"), Some("c5.2xlarge"));
        assert_eq!(
            type_in("p6-b200.48xlarge Linux/UNIX Spot Instance-hour in US West (Oregon)"),
            Some("p6-b200.48xlarge")
        );
        assert_eq!(type_in("$0.0464 per On Demand Linux t2.medium Instance Hour"), Some("t2.medium"));
        assert_eq!(type_in("c7i.metal-24xl reserved"), Some("c7i.metal-24xl"));
        for none in ["$0.01 per GB", "v1.2 of 3.large", "file.txt", ""] {
            assert_eq!(type_in(none), None, "{none}");
        }
    }
}
