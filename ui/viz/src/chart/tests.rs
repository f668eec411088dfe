use super::*;

const SECOND: i64 = 1_000_000;

fn chart() -> LineChart {
    let from = 1_795_971_600 * SECOND;
    let at_us = (0..60).map(|index| from + index * 15 * SECOND).collect::<Vec<_>>();
    let values = (0..60).map(|index| (index != 30).then_some(0.2 + f64::from(index) / 100.0)).collect();
    LineChart {
        title: "TTFT p99 <by region>".into(),
        unit: Unit::Seconds,
        span_us: (from, from + 900 * SECOND),
        zone: Zone::default(),
        step_us: 15 * SECOND,
        at_us,
        series: vec![Line { name: "eu-west-1".into(), slot: 2, values }],
        limit: Some((1.0, "1 s".into())),
        complete_until_us: from + 880 * SECOND,
    }
}

#[test]
fn a_gap_breaks_the_line_and_the_last_bucket_is_open() {
    let frame = frame(&chart());
    assert_eq!(frame.lines[0].done.matches('m').count(), 2, "{}", frame.lines[0].done);
    assert!(!frame.lines[0].open.is_empty());
    let mut finished = chart();
    finished.complete_until_us = finished.span_us.1;
    assert!(super::frame(&finished).lines[0].open.is_empty());
}

#[test]
fn a_bucket_without_a_row_breaks_the_line_too() {
    let mut chart = chart();
    chart.at_us.remove(10);
    chart.series[0].values.remove(10);
    assert_eq!(frame(&chart).lines[0].done.matches('m').count(), 3);
}

#[test]
fn empty_leading_buckets_do_not_blank_a_series() {
    let mut chart = chart();
    for value in &mut chart.series[0].values[..20] {
        *value = None;
    }
    assert!(!frame(&chart).lines[0].done.is_empty());
}

#[test]
fn a_limit_far_above_the_data_does_not_flatten_it() {
    let mut chart = chart();
    chart.limit = Some((100.0, "100 s".into()));
    assert!(frame(&chart).limit.is_none());
}

#[test]
fn text_from_outside_cannot_break_the_markup() {
    let svg = svg(&chart(), r#"{"a":"<b>"}"#);
    assert!(svg.contains("TTFT p99 &lt;by region&gt;"));
    assert!(svg.contains("{&quot;a&quot;:&quot;&lt;b&gt;&quot;}"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn a_chart_without_data_is_still_well_formed() {
    let mut chart = chart();
    chart.at_us.clear();
    chart.series.clear();
    let svg = svg(&chart, "{}");
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    assert!(spark(&[]).is_empty());
    assert!(spark(&[None, Some(0.0)]).contains("<path"));
}

#[test]
fn the_pointer_reads_the_values_that_are_drawn() {
    let hover = hover(&chart());
    assert_eq!(hover.x.len(), 60);
    assert_eq!(hover.series[0].values[30], None);
    assert_eq!(hover.series[0].values[1], Some(0.21));
    assert!((rounded(0.123_456_78) - 0.123_46).abs() < 1e-12);
}
