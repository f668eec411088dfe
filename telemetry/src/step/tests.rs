use super::*;

/// Every line of the bundled file is a row.
#[test]
fn all_rows_are_read() {
    assert_eq!(rows().len(), rows::lines());
    assert!(rows().len() >= 78);
}

fn model(instance: &str, name: &str) -> StepModel {
    StepModel::calibrated(instance, name).unwrap()
}

/// The fit repeats the rows that it was made from within its stated error: recomputed here from
/// the file, row by row.
#[test]
fn stated_error_is_the_error_of_the_rows() {
    for (instance, name) in [
        ("inf2.48xlarge", "Llama-3-8B"),
        ("trn1.32xlarge", "Llama-3-8B"),
        ("inf2.48xlarge", "Llama-3-70B"),
        ("trn1.32xlarge", "Llama-3-70B"),
    ] {
        let model = model(instance, name);
        let (mut error, mut count) = (0.0, 0.0);
        for row in rows() {
            if row.instance_type != instance || row.model != name {
                continue;
            }
            let shape = StepShape {
                prefill_tokens: 0,
                decode_slots: row.batch,
                context: bucket(row.sequence_length, u32::MAX),
            };
            let ms = model.time(shape).decode_ns as f64 / 1e6;
            error += (ms / row.tpot_p50_ms - 1.0).abs();
            count += 1.0;
        }
        let mean = error / count;
        assert!((mean - model.calibration().decode_error).abs() < 1e-6);
        assert!(mean < 0.06, "{instance} {name}: {mean}");
        assert!(model.calibration().mean_error_percent() > 0.0);
    }
}

/// The published INT8 rows of batch 1 and 8 come out as published, within a tenth.
#[test]
fn decode_times_of_int8_rows() {
    let inf2 = model("inf2.48xlarge", "Llama-3-8B");
    for (slots, context, ms) in [(1, 4096, 6.42), (8, 4096, 10.45), (8, 8192, 15.22)] {
        let shape = StepShape { prefill_tokens: 0, decode_slots: slots, context };
        let found = inf2.time(shape).decode_ns as f64 / 1e6;
        assert!((found / ms - 1.0).abs() < 0.1, "{found} for {ms}");
    }
    assert_eq!(inf2.calibration().weight_type, "int8");
    assert_eq!(inf2.calibration().tensor_parallel, 24);
    assert_eq!(inf2.calibration().sdk, "2.18");
    assert_eq!(inf2.calibration().batch_max, 8);
}

/// A longer prompt never takes less time, and none takes less than the shortest bucket.
#[test]
fn prefill_rises() {
    for instance in ["inf2.48xlarge", "trn1.32xlarge"] {
        let model = model(instance, "Llama-3-8B");
        let mut last = 0;
        for tokens in [1, 128, 256, 512, 1024, 2048, 4096, 8192] {
            let time = model.time(StepShape { prefill_tokens: tokens, ..StepShape::default() });
            assert!(time.prefill_ns >= last, "{instance} {tokens}");
            assert_eq!(time.decode_ns, 0);
            last = time.prefill_ns;
        }
    }
}

/// A model nobody measured has no step times.
#[test]
fn unknown_model_has_none() {
    assert_eq!(StepModel::calibrated("inf2.48xlarge", "Llama-9"), None);
    assert_eq!(StepModel::calibrated("p5.48xlarge", "Llama-3-8B"), None);
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

/// Prefill works the chips harder than decode.
#[test]
fn load_of_phases() {
    let model = model("inf2.48xlarge", "Llama-3-8B");
    let decode = model.load(StepShape { prefill_tokens: 0, decode_slots: 8, context: 4096 });
    let prefill = model.load(StepShape { prefill_tokens: 2048, ..StepShape::default() });
    assert!(decode > 0.0 && decode < 0.2, "{decode}");
    assert!(prefill > 0.9, "{prefill}");
    assert_eq!(model.load(StepShape::default()), 0.0);
}
