use super::*;

const NOON: i64 = 1_795_953_600_000_000;

fn check_round_trip(scope: &Scope) {
    let link = scope.link("/");
    let query = link.split_once('?').map_or("", |(_, query)| query);
    assert_eq!(&Scope::parse(query), scope, "{link}");
}

#[test]
fn a_scope_survives_its_own_url() {
    let texts = [None, Some("eu-west-1"), Some("Llama 3 70B / int8"), Some("a&b=c%+é~'\"<>")];
    let ranges = [Range::Last(900), Range::Last(77), Range::Last(86_400), Range::Between(NOON, NOON + 1_500_001)];
    for range in ranges {
        for text in texts {
            for live in [true, false] {
                let mut scope = Scope { range, live, ..Scope::default() };
                for dimension in Dimension::ALL {
                    scope = scope.with(dimension, text);
                    assert_eq!(scope.get(dimension), text);
                }
                check_round_trip(&scope);
            }
        }
    }
}

#[test]
fn request_filters_survive_their_own_url() {
    for sort in Sort::ALL {
        let filter = RequestFilter {
            status: Some("error".into()),
            host: Some("euw1-inf2-a".into()),
            min_ttft_ms: Some(1.5),
            sort,
            after: Some(("2026-11-29T12:00:00.000001Z".into(), "00f067aa0ba902b7".into())),
        };
        let link = filter.link(&Scope::default());
        assert_eq!(RequestFilter::parse(link.split_once('?').unwrap().1), filter, "{link}");
    }
}

#[test]
fn defaults_are_left_out() {
    assert_eq!(Scope::default().link("/"), "/");
    assert_eq!(RequestFilter::default().link(&Scope::default()), "/requests");
}

#[test]
fn nonsense_is_dropped() {
    for query in [
        "range=-5m",
        "range=",
        "range=9e9d",
        "from=x&to=y",
        "from=2000&to=1000",
        // No calendar has these, and no table reaches so far.
        "from=1&to=9223372036854775",
        "from=-9223372036854775&to=1",
        "from=1970-01-01T00:00:00Z&to=9999-12-31T23:59:59Z",
        "from=0&to=99999999999",
        "time=1970-01-01T00:00:00Z&time.window=1h",
        "time=9999-12-31T23:59:59Z&time.window=400d",
        "=&&&%zz",
        "region=",
        "live=maybe",
        "range=é",
    ] {
        assert_eq!(Scope::parse(query), Scope::default(), "{query}");
    }
    assert_eq!(Scope::parse(&format!("region={}", "x".repeat(300))).region, None);
    assert_eq!(RequestFilter::parse("min_ttft_ms=NaN&sort=x&after=1"), RequestFilter::default());
}

#[test]
fn a_form_sends_local_date_fields_which_are_utc() {
    let scope = Scope::parse("from=2026-11-29T12:00&to=2026-11-29T12:30");
    assert_eq!(scope.range, Range::Between(NOON, NOON + 1_800_000_000));
    let millis = Scope::parse("from=1795953600000&to=1795953600001");
    assert_eq!(millis.range, Range::Between(NOON, NOON + 1_000));
}

#[test]
fn one_clock_resolves_the_range() {
    assert_eq!(Scope::parse("range=1m").resolve(NOON), (NOON - 60_000_000, NOON));
    assert!(!Scope::parse("from=1&to=2").follows_now());
}

#[test]
fn percent_signs_that_escape_nothing_stand_for_themselves() {
    assert_eq!(decode("100%+of%2"), "100% of%2");
    assert_eq!(decode("%E2%82%AC"), "€");
    assert_eq!(encode("€ 5%"), "%E2%82%AC+5%25");
}

#[test]
fn an_alert_names_an_instant_and_a_width() {
    let scope = Scope::parse("time=2026-11-29T12:00:00Z&time.window=1h");
    assert_eq!(scope.range, Range::Between(NOON - 1_800_000_000, NOON + 1_800_000_000));
}

#[test]
fn a_window_moves_by_half_of_itself_and_stops_at_the_present() {
    let scope = Scope::parse("range=1h");
    let earlier = scope.shifted(NOON, -1);
    assert_eq!(earlier.range, Range::Between(NOON - 5_400_000_000, NOON - 1_800_000_000));
    assert_eq!(earlier.shifted(NOON, 1).range, Range::Last(3_600), "back at the present it follows it again");
    assert_eq!(scope.widened(NOON).range, Range::Last(7_200));
    assert_eq!(earlier.widened(NOON).range, Range::Between(NOON - 7_200_000_000, NOON));
}

#[test]
fn what_a_url_names_can_be_written_again() {
    let scope = Scope::parse("from=8999-12-01T00:00:00Z&to=8999-12-31T00:00:00Z");
    let (from, to) = scope.resolve(NOON);
    assert_eq!((rfc3339(from).as_str(), rfc3339(to).as_str()), ("8999-12-01T00:00:00Z", "8999-12-31T00:00:00Z"));
    assert_eq!(parse_instant("9223372036854775807"), None);
    let year = Scope { range: Range::Between(NOON, NOON + 400 * 86_400_000_000), ..Scope::default() };
    assert_eq!(year.widened(NOON).range, year.range, "no wider than a URL may say");
}

#[test]
fn times_without_a_zone_are_those_of_the_page() {
    let at = |text: &str| {
        Timestamp::to_string(
            &Timestamp::from_microsecond(match Scope::parse(text).range {
                Range::Between(from, _) => from,
                Range::Last(_) => panic!("no stretch in {text}"),
            })
            .unwrap(),
        )
    };
    // Clocks in Ireland go back at 01:00 UTC on 25 October: 01:30 comes twice, and the first is meant.
    assert_eq!(at("tz=Europe/Dublin&from=2026-10-25T01:30&to=2026-10-25T03:00"), "2026-10-25T00:30:00Z");
    assert_eq!(at("tz=Europe/Dublin&from=2026-10-25T01:30Z&to=2026-10-25T03:00"), "2026-10-25T01:30:00Z");
    assert_eq!(at("from=2026-10-25T01:30&to=2026-10-25T03:00"), "2026-10-25T01:30:00Z");
    check_round_trip(&Scope { tz: Some("Asia/Kolkata".to_owned()), ..Scope::default() });
    for nonsense in ["tz=Mars/Olympus", "tz=../../etc/passwd", "tz=UTC"] {
        assert_eq!(Scope::parse(nonsense).tz, None, "{nonsense}");
    }
}
