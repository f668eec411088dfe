use super::*;

fn read(text: &str, format: Format) -> Exposition<'_> {
    parse(text.as_bytes(), format, 1_000).unwrap()
}

/// Name, shape, labels and number of every point that is one.
fn numbers(exposition: &Exposition<'_>) -> Vec<(String, Shape, String, f64)> {
    let mut found = Vec::new();
    for metric in &exposition.metrics {
        for point in &metric.points {
            let labels: Vec<String> = point.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if let Value::Number(value, _) = &point.value {
                found.push((metric.name.to_owned(), metric.shape, labels.join(","), *value));
            }
        }
    }
    found
}

fn number(name: &str, shape: Shape, labels: &str, value: f64) -> (String, Shape, String, f64) {
    (name.to_owned(), shape, labels.to_owned(), value)
}

/// vLLM's text as `prometheus_client` writes it: colons in names, `_total`, `_created` as gauges of their own.
#[test]
fn text_of_an_engine() {
    let text = "\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\\\"1\\\\\\n\"} 3.0
# HELP vllm:generation_tokens_total Tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name=\"m\"} 1.5e+03
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{model_name=\"m\"} 1.79e+09
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{le=\"0.1\",model_name=\"m\"} 1.0
vllm:ttft_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 4.0
vllm:ttft_seconds_bucket{le=\"0.5\",model_name=\"m\"} 3.0
vllm:ttft_seconds_count{model_name=\"m\"} 4.0
vllm:ttft_seconds_sum{model_name=\"m\"} 2.25
# TYPE vllm:ttft_seconds_created gauge
vllm:ttft_seconds_created{model_name=\"m\"} 1.79e+09
";
    let exposition = read(text, Format::Text);
    assert_eq!((exposition.faults, exposition.samples), (0, 9));
    assert_eq!(
        numbers(&exposition),
        [
            number("vllm:num_requests_running", Shape::Gauge, "engine=0,model_name=m\"1\\\n", 3.0),
            number("vllm:generation_tokens_total", Shape::Counter, "model_name=m", 1500.0),
        ]
    );
    assert_eq!(exposition.metrics[0].help, "Number of requests in model execution batches.");
    assert_eq!(exposition.metrics[1].points[0].created_ns, Some(1_790_000_000_000_000_000));
    let point = &exposition.metrics[2].points[0];
    assert_eq!((exposition.metrics[2].name, point.created_ns), ("vllm:ttft_seconds", Some(1_790_000_000_000_000_000)));
    let histogram =
        Histogram { bounds: vec![0.1, 0.5], counts: vec![1, 2, 1], count: 4, sum: Some(2.25), exemplars: Vec::new() };
    assert_eq!(point.value, Value::Histogram(histogram));
}

/// OpenMetrics: units, exemplars, timestamps in seconds, rare types, and the end.
#[test]
fn open_metrics() {
    let text = "\
# TYPE calls counter
# UNIT calls seconds
calls_total{a=\"b\"} 7 1790000000.5 # {trace_id=\"0102\"} 0.25 1790000000.25
calls_created{a=\"b\"} 1789999999.5
# TYPE build info
build_info{version=\"1\"} 1
# TYPE mode stateset
mode{mode=\"on\"} 1
mode{mode=\"off\"} 0
# TYPE size gaugehistogram
size_bucket{le=\"1\"} 2
size_bucket{le=\"+Inf\"} 1
size_gcount 1
size_gsum 3
# TYPE wait summary
wait{quantile=\"0.5\"} 0.2
wait_count 3
wait_sum 0.9
# EOF
";
    let exposition = read(text, Format::OpenMetrics);
    assert_eq!(exposition.fault, None);
    let calls = &exposition.metrics[0];
    assert_eq!((calls.name, calls.unit, calls.declared), ("calls_total", "seconds", Declared::Counter));
    let point = &calls.points[0];
    assert_eq!(point.time_ns, Some(1_790_000_000_500_000_000));
    assert_eq!(point.created_ns, Some(1_789_999_999_500_000_000));
    let Value::Number(_, Some(exemplar)) = &point.value else { panic!("no exemplar") };
    assert_eq!((exemplar.value, exemplar.time_ns), (0.25, Some(1_790_000_000_250_000_000)));
    assert_eq!(exemplar.labels, [("trace_id", Cow::Borrowed("0102"))]);
    assert_eq!(
        numbers(&exposition)[1..],
        [
            number("build_info", Shape::Gauge, "version=1", 1.0),
            number("mode", Shape::Gauge, "mode=on", 1.0),
            number("mode", Shape::Gauge, "mode=off", 0.0),
            number("size_bucket", Shape::Gauge, "le=1", 2.0),
            number("size_bucket", Shape::Gauge, "le=+Inf", 1.0),
            number("size_gcount", Shape::Gauge, "", 1.0),
            number("size_gsum", Shape::Gauge, "", 3.0),
        ]
    );
    let wait = exposition.metrics.last().unwrap();
    assert_eq!(wait.points[0].value, Value::Summary(Summary { quantiles: vec![(0.5, 0.2)], count: 3, sum: 0.9 }));
}

/// A text that was cut off is not half an exposition.
#[test]
fn a_cut_text_is_refused() {
    assert_eq!(parse(b"a 1\n", Format::OpenMetrics, 9), Err(Unreadable::Truncated));
    assert_eq!(parse(b"a 1\nb 1\n", Format::Text, 1), Err(Unreadable::TooMany(1)));
    assert_eq!(
        read("a 1\n# EOF\nb 1\n", Format::OpenMetrics).fault,
        Some(Fault { line: 3, message: "text after `# EOF`" })
    );
}

/// Values as Go writes them, times in milliseconds, quoted names, spaces and carriage returns.
#[test]
fn odd_but_sound_lines() {
    let text = "  a  { b = \"c\" , } NaN \r\nup +Inf 1790000000123\n{\"odd.name\",x=\"y\"} -1e-3\nlast 0x";
    let exposition = read(text, Format::Text);
    assert_eq!(exposition.faults, 1, "only the hexadecimal value is none");
    let found = numbers(&exposition);
    assert!(found[0].3.is_nan());
    assert_eq!(
        found[1..],
        [number("up", Shape::Gauge, "", f64::INFINITY), number("odd.name", Shape::Gauge, "x=y", -0.001)]
    );
    assert_eq!(exposition.metrics[1].points[0].time_ns, Some(1_790_000_000_123_000_000));
}

/// Each of these lines is counted as one fault, says what is wrong, and does not touch its neighbours.
#[test]
fn a_bad_line_costs_itself_alone() {
    for (line, message) in [
        ("1a 1", "no metric name"),
        ("a", "no space between name and value"),
        ("a ", "no space between name and value"),
        ("a{} ", "no value"),
        ("a-1", "no space between name and value"),
        ("a b", "a value that is no number"),
        ("a 1 x", "a timestamp that is none"),
        ("a 1 9999999999999999", "a timestamp that is none"),
        ("a 1 2 3", "text after the sample"),
        ("a{b} 1", "a label without a value"),
        ("a{b=c} 1", "a value without quotes"),
        ("a{b=\"c} 1", "a quote that does not end"),
        ("a{b=\"c\" d=\"e\"} 1", "no comma between labels"),
        ("a{b=\"c\",b=\"d\"} 1", "a label stands twice"),
        ("a{1=\"c\"} 1", "a label without a name"),
        ("a{\"b\"} 1", "two names"),
        ("a 1 # 2", "an exemplar without labels"),
        ("# TYPE a odd", "an unknown type"),
    ] {
        let text = format!("x 1\n{line}\ny 2\n");
        let exposition = read(&text, Format::Text);
        assert_eq!(exposition.fault, Some(Fault { line: 2, message }), "{line}");
        assert_eq!((exposition.faults, numbers(&exposition).len()), (1, 2), "{line}");
    }
    let bytes = parse(b"x 1\na{b=\"\xff\"} 1\ny 2\n", Format::Text, 9).unwrap();
    assert_eq!((bytes.fault.unwrap().message, bytes.samples), ("not valid UTF-8", 2));
    let twice = read("a{b=\"c\"} 1\na{b=\"c\"} 2\n", Format::Text);
    assert_eq!(twice.fault, Some(Fault { line: 2, message: "a series stands twice" }));
}

/// What does not fit together is kept as it stands, under its own names.
#[test]
fn a_histogram_that_is_none_is_kept_as_numbers() {
    for (bucket, count) in [("5", "4"), ("-1", "4"), ("1.5", "4"), ("NaN", "4"), ("1", "NaN")] {
        let text = format!("# TYPE h histogram\nh_bucket{{le=\"1\"}} {bucket}\nh_count {count}\nh_sum 1\n");
        let names: Vec<String> = numbers(&read(&text, Format::Text)).into_iter().map(|found| found.0).collect();
        assert_eq!(names, ["h_bucket", "h_count", "h_sum"], "{bucket} of {count}");
    }
    let no_count = read("# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\n", Format::Text);
    assert_eq!(numbers(&no_count).len(), 2);
    let twice = read("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1.0\"} 1\nh_count 1\n", Format::Text);
    assert_eq!(numbers(&twice).len(), 3);
}

/// A histogram without `+Inf` takes its count from `_count`, one without `_sum` has none.
#[test]
fn a_histogram_with_parts_missing() {
    let exposition = read("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 3\n", Format::Text);
    let histogram = Histogram { bounds: vec![1.0], counts: vec![1, 2], count: 3, sum: None, exemplars: Vec::new() };
    assert_eq!(exposition.metrics[0].points[0].value, Value::Histogram(histogram));
}

/// A point with endless parts costs neither time nor memory without end.
#[test]
fn the_parts_of_a_point_are_bounded() {
    let mut text = "# TYPE h histogram\n".to_owned();
    for bound in 0..3_000 {
        text.push_str(&format!("h_bucket{{le=\"{bound}\"}} {bound}\n"));
    }
    let exposition = parse(text.as_bytes(), Format::Text, 5_000).unwrap();
    assert_eq!(exposition.faults, 3_000 - 1_024);
    assert_eq!(exposition.fault.unwrap().message, "more than 1024 samples of one point");
}

/// A small generator, so that every run tries the same texts.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Whatever arrives, each line is a sample, a comment, or a fault, and every histogram adds up.
#[test]
fn any_bytes_are_read_without_harm() {
    let sound = "# TYPE h histogram\nh_bucket{le=\"0.1\",a=\"b\\n\"} 1 # {trace_id=\"1\"} 0.1 5\nh_bucket{le=\"+Inf\",a=\"b\\n\"} 2\n\
        h_count{a=\"b\\n\"} 2\nh_sum{a=\"b\\n\"} 1\n# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 1\ns_count 1\n\
        # TYPE c counter\nc_total 1 5\nc_created 3\n# UNIT c x\n{\"q.n\",b=\"c\"} 4\n# EOF\n";
    let marks = b"{}\"\\,=#\n 019.+-eNaInf_:\xff\xc3\xa9";
    let mut seeded = Seeded(0x9e37_79b9_7f4a_7c15);
    for round in 0..5_000 {
        let mut bytes = sound.as_bytes().to_vec();
        for _ in 0..=seeded.next(8) {
            let at = seeded.next(bytes.len());
            match seeded.next(3) {
                0 => bytes[at] = marks[seeded.next(marks.len())],
                1 => bytes.insert(at, marks[seeded.next(marks.len())]),
                _ => drop(bytes.remove(at)),
            }
        }
        let format = if round % 2 == 0 { Format::Text } else { Format::OpenMetrics };
        let Ok(exposition) = parse(&bytes, format, 100) else { continue };
        let lines = bytes.split(|byte| *byte == b'\n').count();
        assert!(exposition.samples as u64 + exposition.faults <= 2 * lines as u64);
        for point in exposition.metrics.iter().flat_map(|metric| &metric.points) {
            assert!(point.labels.windows(2).all(|pair| pair[0].0 < pair[1].0));
            if let Value::Histogram(histogram) = &point.value {
                assert_eq!(histogram.counts.iter().sum::<u64>(), histogram.count);
                assert_eq!(histogram.counts.len(), histogram.bounds.len() + 1);
                assert!(histogram.bounds.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}

/// What is written as text reads back as it was, whatever is in names and values.
#[test]
fn what_is_written_reads_back() {
    let letters = ['a', '"', '\\', '\n', 'n', ' ', '{', '}', ',', '=', '#', 'é', '\t'];
    let mut seeded = Seeded(42);
    for _ in 0..2_000 {
        let value: String = (0..seeded.next(12)).map(|_| letters[seeded.next(letters.len())]).collect();
        let number =
            f64::from_bits((seeded.next(usize::MAX) as u64) & !(0x7ff << 52) | ((seeded.next(2046) as u64) << 52));
        let written = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let text = format!("m{{l=\"{written}\"}} {number:?}\n");
        let exposition = read(&text, Format::Text);
        let point = &exposition.metrics[0].points[0];
        assert_eq!(point.labels, [("l", Cow::Borrowed(value.as_str()))], "{text}");
        assert_eq!(point.value, Value::Number(number, None), "{text}");
    }
}
