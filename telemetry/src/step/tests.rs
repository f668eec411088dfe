use super::*;

/// Every line of the bundled files is a row.
#[test]
fn all_rows_are_read() {
    assert_eq!((rows().len(), rows::lines()), (78, 78));
    assert_eq!(serving_rows().len(), 6);
    assert_eq!(gpu_rows().len(), 119);
    assert!(rows().iter().all(|row| row.decode_terms().is_some()), "a model without figures");
}

fn target<'a>(hardware: &'a str, model: &'a str) -> Target<'a> {
    Target { hardware, model, chips: None, weight_type: None }
}

fn table(hardware: &str, model: &str) -> StepModel {
    StepModel::table(&target(hardware, model)).unwrap()
}

fn decode(slots: u32, context: u32) -> StepShape {
    StepShape { prefill_tokens: 0, decode_slots: slots, context }
}

fn decode_ms(model: &StepModel, slots: u32, context: u32) -> f64 {
    model.time(decode(slots, context)).decode_ns as f64 / 1e6
}

/// Mean absolute error over all 78 rows, recomputed from the file and from what the models say.
fn error_over_rows(model: impl Fn(&BenchmarkRow) -> StepModel) -> f64 {
    let errors = rows().iter().map(|row| {
        let ms = decode_ms(&model(row), row.batch, bucket(row.sequence_length, u32::MAX));
        (ms / row.tpot_p50_ms - 1.0).abs()
    });
    least::mean(errors)
}

/// The table repeats the published times per output token within 4 %, the roofline within 7 %, and both say so.
#[test]
fn models_repeat_the_rows_they_were_made_from() {
    let by_table = error_over_rows(|row| table(&row.instance_type, &row.model));
    assert!(by_table <= 0.04, "{by_table}");
    let roofline = |row: &BenchmarkRow| {
        let target = Target { weight_type: Some(&row.weight_type), ..target(&row.instance_type, &row.model) };
        StepModel::roofline(&target).unwrap()
    };
    let by_roofline = error_over_rows(roofline);
    assert!(by_roofline <= 0.07, "{by_roofline}");
    let stated = roofline(&rows()[0]).calibration().clone();
    assert!((stated.decode_error - by_roofline).abs() < 1e-6);
    let unseen = stated.unseen_error.unwrap();
    assert!(unseen > stated.decode_error && unseen < 0.12, "{unseen}");
    assert!(stated.note().contains("SDK 2.18") && stated.note().contains("left out"), "{}", stated.note());
}

/// Each table states the error of just its rows.
#[test]
fn stated_error_is_the_error_of_the_rows() {
    for (hardware, name) in [("inf2.48xlarge", "Llama-3-8B"), ("trn1.32xlarge", "Llama-3-70B")] {
        let model = table(hardware, name);
        let own = rows().iter().filter(|row| row.instance_type == hardware && row.model == name);
        let errors = own.map(|row| {
            (decode_ms(&model, row.batch, bucket(row.sequence_length, u32::MAX)) / row.tpot_p50_ms - 1.0).abs()
        });
        assert!((least::mean(errors) - model.calibration().decode_error).abs() < 1e-6);
    }
}

/// One set of coefficients gives both machines: how much faster Trn1 is comes out of its figures.
#[test]
fn trn1_against_inf2_follows_from_their_figures() {
    let ratios = report::machine_ratios();
    assert!(ratios.len() >= 20, "{}", ratios.len());
    let error = least::mean(ratios.iter().map(|(_, published, reckoned)| (reckoned / published - 1.0).abs()));
    assert!(error < 0.1, "{error}");
    let (slower, ahead) = (ratios.iter().filter(|(_, _, reckoned)| *reckoned > 1.0).count(), ratios.len());
    assert_eq!(slower, 0, "of {ahead}");
    // Were Trn1 an Inf2, the ratio would be 1: the figures explain at least half of the difference.
    let naive = least::mean(ratios.iter().map(|(_, published, _)| (1.0 / published - 1.0).abs()));
    assert!(error < naive / 2.0, "{error} against {naive}");
}

/// The published INT8 rows of batch 1 and 8 come out as published, within a twentieth.
#[test]
fn decode_times_of_int8_rows() {
    let inf2 = table("inf2.48xlarge", "Llama-3-8B");
    for (slots, context, ms) in [(1, 4096, 6.42), (8, 4096, 10.45), (8, 8192, 15.22)] {
        let found = decode_ms(&inf2, slots, context);
        assert!((found / ms - 1.0).abs() < 0.05, "{found} for {ms}");
    }
    let about = inf2.calibration();
    assert_eq!((about.weight_type.as_str(), about.tensor_parallel, about.chips), ("int8", 24, 12));
    assert_eq!((about.source.as_str(), about.batch_max), ("SDK 2.18", 8));
}

/// Measurements of another software on part of the machine, which no coefficient has seen, lie near the roofline.
#[test]
fn roofline_meets_rows_it_has_not_seen() {
    let serving = Target { chips: Some(4), weight_type: Some("bf16"), ..target("inf2.48xlarge", "Llama-3.1-8B") };
    let model = StepModel::roofline(&serving).unwrap();
    for row in serving_rows() {
        let middle = 0.5 * (decode_ms(&model, row.slots, 512) + decode_ms(&model, row.slots, 4096));
        let published = 0.5 * (row.itl_low_ms + row.itl_high_ms);
        assert!((middle / published - 1.0).abs() < 0.2, "{middle} for {published}");
    }
    // Prompts take the published time, where just this is simulated, and the note says whose.
    let note = model.calibration().note();
    assert!(note.contains("optimum-neuron") && model.calibration().prefill_error.unwrap() < 0.03, "{note}");
    let prompt = model.time(StepShape { prefill_tokens: 4096, ..StepShape::default() }).prefill_ns as f64 / 1e6;
    assert!((prompt - 295.0).abs() < 10.0, "{prompt}");
}

/// GPU tables go through their rows, and the roofline keeps near them.
#[test]
fn gpus_have_step_times() {
    let eight = "meta-llama/Llama-3.1-8B-Instruct";
    let h100 = table("h100", eight);
    assert!((decode_ms(&h100, 8, 0) - 7.32).abs() < 0.05);
    assert_eq!((h100.calibration().chips, h100.calibration().prefill_error), (1, None));
    // It goes through every row, so only what a row left out is missed by says anything.
    let note = h100.calibration().note();
    assert!(note.contains("goes through every row") && note.contains("on a row left out"), "{note}");
    assert!(h100.calibration().mean_error_percent() > 0.5, "{note}");
    let roofline = StepModel::roofline(&target("h100", eight)).unwrap();
    assert!((decode_ms(&roofline, 64, 1024) / 11.5 - 1.0).abs() < 0.15);
    assert!(roofline.calibration().decode_error < 0.1, "{}", roofline.calibration().decode_error);
    let prompt = roofline.time(StepShape { prefill_tokens: 1024, ..StepShape::default() }).prefill_ns as f64 / 1e6;
    assert!(prompt > 20.0 && prompt < 60.0, "{prompt}");
    let seventy = Target { chips: Some(4), ..target("h100", "meta-llama/Llama-3.1-70B-Instruct") };
    assert!((decode_ms(&StepModel::table(&seventy).unwrap(), 32, 0) - 20.0).abs() < 0.5);
}

/// Recorded steps give their own times back; too few give none.
#[test]
fn records_are_replayed() {
    let ms = |shape: StepShape| 2.0 + 0.05 * f64::from(shape.prefill_tokens) + 0.3 * f64::from(shape.decode_slots);
    let mut lines = String::from("prefill_tokens,decode_slots,context,device_us\n");
    for at in 0..60u32 {
        let shape = StepShape { prefill_tokens: (at % 4) * 100, decode_slots: at % 7 + 1, context: 128 << (at % 5) };
        let us = (1e3 * ms(shape)) as u64;
        lines.push_str(&format!("{},{},{},{us}\n", shape.prefill_tokens, shape.decode_slots, shape.context));
    }
    let steps = timed_steps(&lines).unwrap();
    let model = StepModel::replay(&steps, "m").unwrap();
    for shape in [decode(3, 512), StepShape { prefill_tokens: 300, decode_slots: 2, context: 128 }] {
        let found = model.time(shape).total_ns() as f64 / 1e6;
        assert!((found / ms(shape) - 1.0).abs() < 0.01, "{found} for {}", ms(shape));
    }
    assert!(model.calibration().decode_error < 0.01);
    assert!(StepModel::replay(&steps[..5], "m").is_err());
    assert!(timed_steps("prefill_tokens,decode_slots,context,device_us\n1,2,x,4\n").is_err());
}

/// A longer prompt never takes less time, and none takes less than the shortest bucket.
#[test]
fn prefill_rises() {
    for hardware in ["inf2.48xlarge", "trn1.32xlarge"] {
        let roofline = StepModel::roofline(&target(hardware, "Llama-3-8B")).unwrap();
        for model in [table(hardware, "Llama-3-8B"), roofline] {
            let mut last = 0;
            for tokens in [1, 128, 256, 512, 1024, 2048, 4096, 8192] {
                let time = model.time(StepShape { prefill_tokens: tokens, ..StepShape::default() });
                assert!(time.prefill_ns >= last, "{hardware} {tokens}");
                assert_eq!(time.decode_ns, 0);
                last = time.prefill_ns;
            }
        }
    }
}

/// A model nobody measured has no step times, nor has a table on other chips than the rows'.
#[test]
fn unknown_model_has_none() {
    assert!(StepModel::table(&target("inf2.48xlarge", "Llama-9")).is_err());
    assert!(StepModel::roofline(&target("p5.48xlarge", "Llama-3-8B")).is_err());
    assert!(StepModel::table(&Target { chips: Some(4), ..target("inf2.48xlarge", "Llama-3-8B") }).is_err());
}

/// Power of two from 128, the longest one exact; a length above the longest is not cut.
#[test]
fn buckets() {
    for (tokens, longest, expected) in
        [(0, 4096, 128), (128, 4096, 128), (129, 4096, 256), (2049, 3000, 3000), (100, 64, 100), (5000, 4096, 5000)]
    {
        assert_eq!(bucket(tokens, longest), expected, "{tokens} of {longest}");
    }
}

/// Power lies between idle and full, rises with load, and rises faster at first.
#[test]
fn power_is_concave() {
    let curve = PowerCurve { idle_w: 40.0, max_w: 175.0 };
    assert_eq!(curve.watts(0.0), 40.0);
    assert_eq!(curve.watts(1.0), 175.0);
    let (low, half) = (curve.watts(0.1), curve.watts(0.5));
    assert!(low > 40.0 + 0.5 * 135.0 && half > low && half < 175.0);
}

/// The exponent is the one that the rows give.
#[test]
fn power_exponent_is_the_rows() {
    let exponents = (1..100).map(|hundredth| f64::from(hundredth) / 100.0);
    let best = exponents.min_by(|a, b| power::error(*a).total_cmp(&power::error(*b))).unwrap();
    assert_eq!(best, PowerCurve::EXPONENT);
}

/// Prefill works the chips harder than decode.
#[test]
fn load_of_phases() {
    let model = table("inf2.48xlarge", "Llama-3-8B");
    let busy = model.load(decode(8, 4096));
    let prefill = model.load(StepShape { prefill_tokens: 2048, ..StepShape::default() });
    assert!(busy > 0.0 && busy < 0.2, "{busy}");
    assert!(prefill > 0.9, "{prefill}");
    assert_eq!(model.load(StepShape::default()), 0.0);
}

/// The page names every row and both means.
#[test]
fn page_has_every_row() {
    let page = calibration_markdown();
    let lines =
        page.lines().filter(|line| line.starts_with("| inf2.48xlarge | ") || line.starts_with("| trn1.32xlarge | "));
    assert_eq!(lines.filter(|line| line.matches('|').count() == 14).count(), 78);
    assert!(!page.contains("NaN"), "a row without a figure");
}
