//! Metrics of other exporters, and the samples they become: every column that is not named here is NULL.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{NOW_US, START_NS, read};
use crate::batch::tables::Tables;
use crate::decode::{json, schema};
use crate::normalize::{Body, Normalizer, Settings};
use crate::signal::Signal;

/// A gauge with one point: name, unit, value, labels.
type Gauge<'g> = (&'g str, &'g str, f64, &'g [(&'g str, &'g str)]);

/// The samples of one scrape of a target, without their time.
fn sampled(gauges: &[Gauge<'_>]) -> Vec<BTreeMap<String, String>> {
    let mut normalizer = Normalizer::new(Settings::default()).unwrap();
    let mut tables = scraped(&mut normalizer, gauges);
    assert_eq!(read(&mut tables.metrics).len(), gauges.len(), "every point is kept as sent");
    let mut samples = read(&mut tables.devices);
    for sample in &mut samples {
        assert!(sample.remove("time").unwrap().starts_with("2026-09-21T"), "{sample:?}");
        assert_eq!(sample.remove("service").as_deref(), Some("target"));
        assert_eq!(sample.remove("instance").as_deref(), Some("target:9400"));
    }
    samples
}

fn scraped(normalizer: &mut Normalizer, gauges: &[Gauge<'_>]) -> Tables {
    let attribute = |(key, value): &(&str, &str)| json!({"key": key, "value": {"stringValue": value}});
    let metric = |(name, unit, value, labels): &Gauge<'_>| {
        let attributes: Vec<Value> = labels.iter().map(attribute).collect();
        let point = json!({"timeUnixNano": START_NS.to_string(), "asDouble": value, "attributes": attributes});
        json!({"name": name, "unit": unit, "gauge": {"dataPoints": [point]}})
    };
    let resource = [("service.name", "target"), ("service.instance.id", "target:9400")];
    let body = json!({"resourceMetrics": [{
        "resource": {"attributes": resource.iter().map(attribute).collect::<Vec<_>>()},
        "scopeMetrics": [{"metrics": gauges.iter().map(metric).collect::<Vec<_>>()}],
    }]});
    let bytes = json::encode(&schema::METRICS, body.to_string().as_bytes(), 1 << 20, |_| true).unwrap();
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, NOW_US);
    let body = Body { signal: Signal::Metrics, received_us: NOW_US, faulty: false, bytes: &bytes };
    normalizer.body(body, &mut tables).unwrap();
    tables
}

fn row(columns: &[(&str, &str)]) -> BTreeMap<String, String> {
    columns.iter().map(|(column, value)| ((*column).to_owned(), (*value).to_owned())).collect()
}

/// DCGM: millijoules, percent and MiB become joules, shares and bytes; what is used, free and reserved is the total.
#[test]
fn dcgm_counts_in_units_of_its_own() {
    let gpu: &[(&str, &str)] = &[("gpu", "3"), ("UUID", "GPU-a"), ("modelName", "NVIDIA H100"), ("Hostname", "node-7")];
    let samples = sampled(&[
        ("DCGM_FI_DEV_POWER_USAGE", "", 412.5, gpu),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "", 2_500.0, gpu),
        ("DCGM_FI_DEV_GPU_UTIL", "", 87.0, gpu),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "", 0.5, gpu),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "", 0.25, gpu),
        ("DCGM_FI_DEV_FB_USED", "", 1_000.0, gpu),
        ("DCGM_FI_DEV_FB_FREE", "", 2_000.0, gpu),
        ("DCGM_FI_DEV_FB_RESERVED", "", 1.0, gpu),
        ("DCGM_FI_DEV_GPU_TEMP", "", 61.0, gpu),
    ]);
    let expected = row(&[
        ("kind", "accelerator"),
        ("host_id", "node-7"),
        ("device", "GPU-a"),
        ("vendor", "NVIDIA"),
        ("accelerator", "NVIDIA H100"),
        ("power_w", "412.5"),
        ("energy_j", "2.5"),
        ("boundary", "board"),
        ("energy_method", "energy_counter"),
        ("utilization", "0.87"),
        ("utilization_kind", "executing"),
        ("tensor_active", "0.25"),
        ("memory_used_bytes", "1048576000"),
        ("memory_total_bytes", "3146776576"),
        ("temperature_c", "61.0"),
        ("attributes.gpu", "3"),
        ("attributes.Hostname", "node-7"),
    ]);
    assert_eq!(samples, [expected]);
}

/// Two MIG slices repeat their GPU's watts, which count once; what is a slice's own has a row of its own, and the busy share
/// that DCGM gives as 0 for every slice is unknown.
#[test]
fn slices_of_a_gpu_do_not_multiply_its_watts() {
    let slice = |id| [("gpu", "0"), ("UUID", "GPU-a"), ("GPU_I_ID", id)];
    let (one, two) = (slice("1"), slice("2"));
    let samples = sampled(&[
        ("DCGM_FI_DEV_POWER_USAGE", "", 300.0, &one),
        ("DCGM_FI_DEV_POWER_USAGE", "", 300.0, &two),
        ("DCGM_FI_DEV_GPU_UTIL", "", 0.0, &one),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "", 0.75, &one),
        ("DCGM_FI_DEV_FB_USED", "", 1.0, &two),
    ]);
    let of = |device: &str, more: &[(&str, &str)]| {
        let mut columns = row(&[("kind", "accelerator"), ("vendor", "NVIDIA"), ("device", device)]);
        columns.extend(row(&[("attributes.gpu", "0")]));
        columns.extend(row(more));
        columns
    };
    let expected = [
        of("GPU-a", &[("power_w", "300.0"), ("boundary", "board")]),
        of("GPU-a/1", &[("utilization", "0.75"), ("utilization_kind", "executing"), ("attributes.GPU_I_ID", "1")]),
        of("GPU-a/2", &[("memory_used_bytes", "1048576"), ("attributes.GPU_I_ID", "2")]),
    ];
    assert_eq!(samples, expected);
}

/// Pods that share a GPU repeat its watts; one sample is left, and of which pod it is nothing is said.
#[test]
fn a_shared_gpu_is_one_device() {
    let samples = sampled(&[
        ("DCGM_FI_DEV_POWER_USAGE", "", 300.0, &[("UUID", "GPU-a"), ("pod", "one")]),
        ("DCGM_FI_DEV_POWER_USAGE", "", 300.0, &[("UUID", "GPU-a"), ("pod", "two")]),
    ]);
    assert_eq!(samples.len(), 1);
    assert_eq!((samples[0]["power_w"].as_str(), samples[0].get("attributes.pod")), ("300.0", None));
}

/// neuron-monitor's percent and its companion's ratio, told by the name; memory is the sum of its parts; the labels say the
/// host.
#[test]
fn neuron_cores() {
    let core: &[(&str, &str)] = &[
        ("neuroncore", "2"),
        ("instance_id", "i-1"),
        ("instance_type", "inf2.48xlarge"),
        ("region", "eu-west-1"),
        ("availability_zone", "eu-west-1a"),
        ("runtime_tag", "17"),
    ];
    let samples = sampled(&[
        ("neuroncore_utilization_ratio", "", 0.5, core),
        ("neuroncore_memory_usage_constants", "", 100.0, core),
        ("neuroncore_memory_usage_tensors", "", 20.0, core),
        ("neuroncore_utilization", "", 25.0, &[("neuroncore", "3")]),
    ]);
    let expected = row(&[
        ("kind", "accelerator"),
        ("device", "nc2"),
        ("vendor", "AWS"),
        ("region", "eu-west-1"),
        ("zone", "eu-west-1a"),
        ("host_id", "i-1"),
        ("host_type", "inf2.48xlarge"),
        ("utilization", "0.5"),
        ("utilization_kind", "executing"),
        ("memory_used_bytes", "120"),
        ("attributes.runtime_tag", "17"),
        ("attributes.instance_id", "i-1"),
        ("attributes.instance_type", "inf2.48xlarge"),
        ("attributes.region", "eu-west-1"),
        ("attributes.availability_zone", "eu-west-1a"),
    ]);
    assert!(samples.contains(&expected), "{samples:?}");
    assert!(samples.iter().any(|sample| sample["device"] == "nc3" && sample["utilization"] == "0.25"));
}

/// The runtime of a process that ended is still exported, with zeros: the living one's figure holds.
#[test]
fn an_ended_process_hides_nobody() {
    let samples = sampled(&[
        ("neuroncore_utilization_ratio", "", 0.5, &[("neuroncore", "0"), ("runtime_tag", "new")]),
        ("neuroncore_utilization_ratio", "", 0.0, &[("neuroncore", "0"), ("runtime_tag", "old")]),
    ]);
    assert_eq!((samples.len(), samples[0]["utilization"].as_str()), (1, "0.5"));
}

/// Kepler: RAPL zones inside others are left out, and so are shares of containers; packages, platform and GPUs have each a
/// boundary of their own.
#[test]
fn kepler_zones_do_not_overlap() {
    let zone = |zone| [("zone", zone), ("path", "rapl:0"), ("node_name", "n")];
    let samples = sampled(&[
        ("kepler_node_cpu_watts", "", 50.0, &zone("package")),
        ("kepler_node_cpu_watts", "", 40.0, &zone("core")),
        ("kepler_node_cpu_joules_total", "", 7.0, &zone("package")),
        ("kepler_pod_cpu_watts", "", 30.0, &zone("package")),
        ("kepler_node_gpu_watts", "", 200.0, &[("gpu_uuid", "GPU-a"), ("gpu_name", "L4"), ("vendor", "nvidia")]),
        ("kepler_platform_watts", "", 900.0, &[("node_name", "n"), ("source", "redfish")]),
    ]);
    let figures: Vec<_> = samples
        .iter()
        .map(|sample| (sample["kind"].as_str(), sample["boundary"].as_str(), sample["power_w"].as_str()))
        .collect();
    let expected = [("accelerator", "board", "200.0"), ("host", "node", "900.0"), ("host", "chip", "50.0")];
    assert_eq!(figures, expected);
    assert_eq!((samples[0]["accelerator"].as_str(), samples[2]["energy_j"].as_str()), ("L4", "7.0"));
}

/// A unit that the sender declares holds over the one its name usually has; a share over 1 or a sensor that is not there is
/// unknown; fans and video encoders are no accelerators.
#[test]
fn units_and_what_is_no_sample() {
    let gpu: &[(&str, &str)] = &[("hw.id", "0"), ("hw.type", "gpu")];
    let samples = sampled(&[
        ("hw.power", "mW", 75_000.0, gpu),
        ("hw.energy", "kW.h", 2.0, gpu),
        ("hw.gpu.utilization", "%", 50.0, gpu),
        ("hw.gpu.memory.usage", "MiBy", 1.0, gpu),
    ]);
    let expected = row(&[
        ("kind", "accelerator"),
        ("device", "0"),
        ("power_w", "75.0"),
        ("energy_j", "7200000.0"),
        ("utilization", "0.5"),
        ("memory_used_bytes", "1048576"),
    ]);
    assert_eq!(samples, [expected]);
    let nothing = sampled(&[
        ("hw.power", "W", 30.0, &[("hw.id", "f"), ("hw.type", "fan")]),
        ("hw.gpu.utilization", "1", 0.5, &[("hw.id", "0"), ("hw.gpu.task", "decoder")]),
        ("neuroncore_utilization_ratio", "", 85.0, &[("neuroncore", "0")]),
        ("DCGM_FI_DEV_POWER_USAGE", "", 4_294_967_295.0, &[("UUID", "GPU-a")]),
    ]);
    assert_eq!(nothing, []);
}

/// The same device seen as a chip and as a board at one instant is two samples.
#[test]
fn boundaries_are_not_merged() {
    let of = |boundary| [("hw.id", "0"), ("tokenwatt.boundary", boundary)];
    let samples = sampled(&[
        ("hw.power", "W", 80.0, &of("chip")),
        ("hw.power", "W", 100.0, &of("board")),
        ("hw.energy", "J", 5.0, &[("hw.id", "0")]),
    ]);
    assert_eq!(samples.len(), 2);
    assert_eq!((samples[0]["boundary"].as_str(), samples[0]["energy_j"].as_str()), ("chip", "5.0"));
    assert_eq!((samples[1]["boundary"].as_str(), samples[1]["power_w"].as_str()), ("board", "100.0"));
}

/// What each engine calls its batch, its queue and its cache.
#[test]
fn engines() {
    let model: &[(&str, &str)] = &[("model_name", "m")];
    let running = |metric, labels| (metric, labels, "running");
    let waiting = |metric, labels| (metric, labels, "waiting");
    let of_triton = |key, value| vec![("model", "m"), (key, value)];
    for (metric, labels, column) in [
        running("vllm:num_requests_running", model.to_vec()),
        running("ray_vllm_num_requests_running", model.to_vec()),
        waiting("vllm_num_requests_waiting", model.to_vec()),
        ("vllm:kv_cache_usage_perc", model.to_vec(), "kv_usage"),
        ("vllm:gpu_cache_usage_perc", model.to_vec(), "kv_usage"),
        running("sglang:num_running_reqs", model.to_vec()),
        waiting("sglang:num_queue_reqs", model.to_vec()),
        ("sglang:token_usage", model.to_vec(), "kv_usage"),
        running("tgi_batch_current_size", vec![]),
        waiting("tgi_queue_size", vec![]),
        running("trtllm_num_requests_running", model.to_vec()),
        waiting("trtllm_num_requests_waiting", model.to_vec()),
        ("trtllm_kv_cache_utilization", model.to_vec(), "kv_usage"),
        running("nv_trt_llm_request_metrics", of_triton("request_type", "scheduled")),
        waiting("nv_trt_llm_request_metrics", of_triton("request_type", "waiting")),
        ("nv_trt_llm_kv_cache_block_metrics", of_triton("kv_cache_block_type", "fraction"), "kv_usage"),
        waiting("nv_inference_pending_request_count", vec![("model", "m")]),
        running("dynamo_component_inflight_requests", of_triton("dynamo_endpoint", "generate")),
        waiting("dynamo_work_handler_queue_depth", model.to_vec()),
        running("llamacpp:requests_processing", vec![]),
        waiting("llamacpp:requests_deferred", vec![]),
        running("lmdeploy:num_requests_running", model.to_vec()),
        waiting("lmdeploy:num_requests_waiting", model.to_vec()),
        ("lmdeploy:gpu_cache_usage_perc", model.to_vec(), "kv_usage"),
    ] {
        let samples = sampled(&[(metric, "", 1.0, &labels)]);
        assert_eq!(samples.len(), 1, "{metric} samples an engine");
        let mut expected = row(&[("kind", "engine"), (column, if column == "kv_usage" { "1.0" } else { "1" })]);
        if labels.iter().any(|(key, _)| key.starts_with("model")) {
            expected.extend(row(&[("model", "m")]));
        }
        expected.extend(
            labels
                .iter()
                .filter(|(key, _)| !key.starts_with("model"))
                .map(|(key, value)| (format!("attributes.{key}"), (*value).to_owned())),
        );
        assert_eq!(samples[0], expected, "{metric}");
    }
    for (metric, labels) in [
        ("nv_trt_llm_request_metrics", of_triton("request_type", "max")),
        ("dynamo_component_inflight_requests", of_triton("dynamo_endpoint", "clear_kv_blocks")),
        ("dynamo_frontend_inflight_requests", model.to_vec()),
        ("vllm:healthy_pods_total", vec![]),
    ] {
        assert_eq!(sampled(&[(metric, "", 1.0, &labels)]), [], "{metric}");
    }
}

/// A router exports its engines' gauges under their names, a front end what its workers count, ranks what the first one
/// does: none of it is added again. Engines that share the data are engines of their own.
#[test]
fn repeated_gauges_count_once() {
    fn running<'g>(value: f64, labels: &'g [(&'g str, &'g str)]) -> Gauge<'g> {
        ("vllm:num_requests_running", "", value, labels)
    }
    let samples = sampled(&[
        running(4.0, &[("server", "http://one:8000"), ("model_name", "m")]),
        running(4.0, &[("server", "http://one:8000")]),
        running(3.0, &[("model_name", "m"), ("engine", "0")]),
        running(1.0, &[("model_name", "m"), ("engine", "1")]),
        ("dynamo_component_inflight_requests", "", 4.0, &[("dynamo_endpoint", "generate")]),
    ]);
    let counted: Vec<_> =
        samples.iter().map(|sample| (sample["device"].as_str(), sample["running"].as_str())).collect();
    assert_eq!(counted, [("0", "3"), ("1", "1")]);
    let samples = sampled(&[
        ("sglang:num_running_reqs", "", 2.0, &[("model_name", "m"), ("tp_rank", "0"), ("pp_rank", "0")]),
        ("sglang:num_running_reqs", "", 2.0, &[("model_name", "m"), ("tp_rank", "0"), ("pp_rank", "1")]),
        ("sglang:num_running_reqs", "", 2.0, &[("model_name", "m"), ("tp_rank", "1"), ("pp_rank", "0")]),
    ]);
    assert_eq!(samples.len(), 1);
}

/// A hostile sender may state whatever it likes of one device and instant: the samples stay few.
#[test]
fn what_is_stated_of_a_device_is_bounded() {
    let boundaries: Vec<String> = (0..1_000).map(|at| format!("b{at}")).collect();
    let labels: Vec<_> = boundaries.iter().map(|at| [("hw.id", "0"), ("tokenwatt.boundary", at.as_str())]).collect();
    let gauges: Vec<Gauge<'_>> = labels.iter().map(|labels| ("hw.power", "W", 1.0, labels.as_slice())).collect();
    assert_eq!(sampled(&gauges).len(), 16);
}

/// Metrics that name a replica's model name it for spans that do not; two names name nobody.
#[test]
fn metrics_teach_the_model() {
    let mut normalizer = Normalizer::new(Settings::default()).unwrap();
    let mut model = |named: Option<&str>| {
        let label = [("model_name", named.unwrap_or_default())];
        let gauges: &[Gauge<'_>] = match named {
            Some(_) => &[("vllm:num_requests_running", "", 1.0, &label)],
            None => &[("tgi_queue_size", "", 1.0, &[])],
        };
        read(&mut scraped(&mut normalizer, gauges).devices).first().and_then(|sample| sample.get("model").cloned())
    };
    assert_eq!(model(None), None);
    assert_eq!(model(Some("one")).as_deref(), Some("one"));
    assert_eq!(model(None).as_deref(), Some("one"));
    assert_eq!(model(Some("two")).as_deref(), Some("two"));
    assert_eq!(model(None), None, "of two models neither is assumed");
}
